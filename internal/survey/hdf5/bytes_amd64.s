#include "textflag.h"

// The unpack instructions of AVX2 work in the two halves of a register apart: the last step of each block puts the
// halves in order.

// func unshuffle2AVX2(dst, src *byte, n, blocks int)
TEXT ·unshuffle2AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX
	MOVQ blocks+24(FP), CX

loop2:
	VMOVDQU    (SI), Y0
	VMOVDQU    (SI)(DX*1), Y1
	VPUNPCKLBW Y1, Y0, Y2
	VPUNPCKHBW Y1, Y0, Y3
	VPERM2I128 $0x20, Y3, Y2, Y4
	VPERM2I128 $0x31, Y3, Y2, Y5
	VMOVDQU    Y4, (DI)
	VMOVDQU    Y5, 32(DI)
	ADDQ       $32, SI
	ADDQ       $64, DI
	DECQ       CX
	JNZ        loop2
	VZEROUPPER
	RET

// func unshuffle4AVX2(dst, src *byte, n, blocks int)
TEXT ·unshuffle4AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX
	MOVQ blocks+24(FP), CX
	LEAQ (SI)(DX*2), R8

loop4:
	VMOVDQU    (SI), Y0
	VMOVDQU    (SI)(DX*1), Y1
	VMOVDQU    (R8), Y2
	VMOVDQU    (R8)(DX*1), Y3
	VPUNPCKLBW Y1, Y0, Y4
	VPUNPCKHBW Y1, Y0, Y5
	VPUNPCKLBW Y3, Y2, Y6
	VPUNPCKHBW Y3, Y2, Y7
	VPUNPCKLWD Y6, Y4, Y0
	VPUNPCKHWD Y6, Y4, Y1
	VPUNPCKLWD Y7, Y5, Y2
	VPUNPCKHWD Y7, Y5, Y3
	VPERM2I128 $0x20, Y1, Y0, Y8
	VPERM2I128 $0x20, Y3, Y2, Y9
	VPERM2I128 $0x31, Y1, Y0, Y10
	VPERM2I128 $0x31, Y3, Y2, Y11
	VMOVDQU    Y8, (DI)
	VMOVDQU    Y9, 32(DI)
	VMOVDQU    Y10, 64(DI)
	VMOVDQU    Y11, 96(DI)
	ADDQ       $32, SI
	ADDQ       $32, R8
	ADDQ       $128, DI
	DECQ       CX
	JNZ        loop4
	VZEROUPPER
	RET

// func unshuffle8AVX2(dst, src *byte, n, blocks int)
TEXT ·unshuffle8AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX
	MOVQ blocks+24(FP), CX
	LEAQ (SI)(DX*2), R8
	LEAQ (R8)(DX*2), R9
	LEAQ (R9)(DX*2), R10

loop8:
	VMOVDQU     (SI), X0
	VMOVDQU     (SI)(DX*1), X1
	VMOVDQU     (R8), X2
	VMOVDQU     (R8)(DX*1), X3
	VMOVDQU     (R9), X4
	VMOVDQU     (R9)(DX*1), X5
	VMOVDQU     (R10), X6
	VMOVDQU     (R10)(DX*1), X7
	VPUNPCKLBW  X1, X0, X8
	VPUNPCKHBW  X1, X0, X9
	VPUNPCKLBW  X3, X2, X10
	VPUNPCKHBW  X3, X2, X11
	VPUNPCKLBW  X5, X4, X12
	VPUNPCKHBW  X5, X4, X13
	VPUNPCKLBW  X7, X6, X14
	VPUNPCKHBW  X7, X6, X15
	VPUNPCKLWD  X10, X8, X0
	VPUNPCKHWD  X10, X8, X1
	VPUNPCKLWD  X11, X9, X2
	VPUNPCKHWD  X11, X9, X3
	VPUNPCKLWD  X14, X12, X4
	VPUNPCKHWD  X14, X12, X5
	VPUNPCKLWD  X15, X13, X6
	VPUNPCKHWD  X15, X13, X7
	VPUNPCKLDQ  X4, X0, X8
	VPUNPCKHDQ  X4, X0, X9
	VPUNPCKLDQ  X5, X1, X10
	VPUNPCKHDQ  X5, X1, X11
	VPUNPCKLDQ  X6, X2, X12
	VPUNPCKHDQ  X6, X2, X13
	VPUNPCKLDQ  X7, X3, X14
	VPUNPCKHDQ  X7, X3, X15
	VMOVDQU     X8, (DI)
	VMOVDQU     X9, 16(DI)
	VMOVDQU     X10, 32(DI)
	VMOVDQU     X11, 48(DI)
	VMOVDQU     X12, 64(DI)
	VMOVDQU     X13, 80(DI)
	VMOVDQU     X14, 96(DI)
	VMOVDQU     X15, 112(DI)
	ADDQ        $16, SI
	ADDQ        $16, R8
	ADDQ        $16, R9
	ADDQ        $16, R10
	ADDQ        $128, DI
	DECQ        CX
	JNZ         loop8
	VZEROUPPER
	RET

// weights<> are 32 down to 1: how often a byte of a vector counts in the sum of prefixes that end in the vector.
DATA weights<>+0(SB)/8, $0x191a1b1c1d1e1f20
DATA weights<>+8(SB)/8, $0x1112131415161718
DATA weights<>+16(SB)/8, $0x090a0b0c0d0e0f10
DATA weights<>+24(SB)/8, $0x0102030405060708
GLOBL weights<>(SB), RODATA|NOPTR, $32

DATA ones<>+0(SB)/8, $0x0001000100010001
DATA ones<>+8(SB)/8, $0x0001000100010001
DATA ones<>+16(SB)/8, $0x0001000100010001
DATA ones<>+24(SB)/8, $0x0001000100010001
GLOBL ones<>(SB), RODATA|NOPTR, $32

// func adlerAVX2(b *byte, n int) (s1, s2 uint32)
// Y0: sum of bytes; Y1: sum of Y0 before each vector; Y2: weighted sums within vectors.
TEXT ·adlerAVX2(SB), NOSPLIT, $0-24
	MOVQ    b+0(FP), SI
	MOVQ    n+8(FP), CX
	VMOVDQU weights<>(SB), Y8
	VMOVDQU ones<>(SB), Y9
	VPXOR   Y0, Y0, Y0
	VPXOR   Y1, Y1, Y1
	VPXOR   Y2, Y2, Y2
	VPXOR   Y7, Y7, Y7

loopAdler:
	VMOVDQU    (SI), Y3
	VPADDD     Y0, Y1, Y1
	VPSADBW    Y7, Y3, Y4
	VPMADDUBSW Y8, Y3, Y5
	VPMADDWD   Y9, Y5, Y5
	VPADDD     Y4, Y0, Y0
	VPADDD     Y5, Y2, Y2
	ADDQ       $32, SI
	DECQ       CX
	JNZ        loopAdler

	VPSLLD       $5, Y1, Y1
	VPADDD       Y1, Y2, Y2
	VEXTRACTI128 $1, Y0, X3
	VPADDD       X3, X0, X0
	VPSHUFD      $0x4e, X0, X3
	VPADDD       X3, X0, X0
	VPSHUFD      $0xb1, X0, X3
	VPADDD       X3, X0, X0
	VEXTRACTI128 $1, Y2, X4
	VPADDD       X4, X2, X2
	VPSHUFD      $0x4e, X2, X4
	VPADDD       X4, X2, X2
	VPSHUFD      $0xb1, X2, X4
	VPADDD       X4, X2, X2
	VMOVD        X0, AX
	VMOVD        X2, BX
	VZEROUPPER
	MOVL         AX, s1+16(FP)
	MOVL         BX, s2+20(FP)
	RET

// func transpose8AVX2(b *byte, blocks int)
// In each 8 bytes: swaps of bits that are 7, 14 and 28 apart.
TEXT ·transpose8AVX2(SB), NOSPLIT, $0-16
	MOVQ         b+0(FP), DI
	MOVQ         blocks+8(FP), CX
	MOVQ         $0x00aa00aa00aa00aa, AX
	VMOVQ        AX, X8
	VPBROADCASTQ X8, Y8
	MOVQ         $0x0000cccc0000cccc, AX
	VMOVQ        AX, X9
	VPBROADCASTQ X9, Y9
	MOVQ         $0x00000000f0f0f0f0, AX
	VMOVQ        AX, X10
	VPBROADCASTQ X10, Y10

loopBits:
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y3
	VPSRLQ  $7, Y0, Y1
	VPSRLQ  $7, Y3, Y4
	VPXOR   Y0, Y1, Y1
	VPXOR   Y3, Y4, Y4
	VPAND   Y8, Y1, Y1
	VPAND   Y8, Y4, Y4
	VPSLLQ  $7, Y1, Y2
	VPSLLQ  $7, Y4, Y5
	VPXOR   Y1, Y0, Y0
	VPXOR   Y4, Y3, Y3
	VPXOR   Y2, Y0, Y0
	VPXOR   Y5, Y3, Y3
	VPSRLQ  $14, Y0, Y1
	VPSRLQ  $14, Y3, Y4
	VPXOR   Y0, Y1, Y1
	VPXOR   Y3, Y4, Y4
	VPAND   Y9, Y1, Y1
	VPAND   Y9, Y4, Y4
	VPSLLQ  $14, Y1, Y2
	VPSLLQ  $14, Y4, Y5
	VPXOR   Y1, Y0, Y0
	VPXOR   Y4, Y3, Y3
	VPXOR   Y2, Y0, Y0
	VPXOR   Y5, Y3, Y3
	VPSRLQ  $28, Y0, Y1
	VPSRLQ  $28, Y3, Y4
	VPXOR   Y0, Y1, Y1
	VPXOR   Y3, Y4, Y4
	VPAND   Y10, Y1, Y1
	VPAND   Y10, Y4, Y4
	VPSLLQ  $28, Y1, Y2
	VPSLLQ  $28, Y4, Y5
	VPXOR   Y1, Y0, Y0
	VPXOR   Y4, Y3, Y3
	VPXOR   Y2, Y0, Y0
	VPXOR   Y5, Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y3, 32(DI)
	ADDQ    $64, DI
	DECQ    CX
	JNZ     loopBits
	VZEROUPPER
	RET
