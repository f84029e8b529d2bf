// Package sky turns positions into HEALPix pixels and back, NESTED numbering, orders 0 to 29.
//
// Positions are ICRS degrees: right ascension of any finite value (wrapped into [0, 360)), declination in [-90, 90].
// A pixel is an int64 in [0, 12*4^order). Ranges of pixels are half-open, [Lo, Hi), at order 29 unless said otherwise,
// so that one number line serves every order: pixel p of order k is the range [p*4^(29-k), (p+1)*4^(29-k)).
//
// The same input gives the same bits on every machine Go runs on. No product is left for a compiler to fuse into the
// sum that follows: each is written float64(x*y). Where a fused product is wanted, it is math.FMA, which IEEE 754
// defines to the last bit. Sine and its kin are this package's own (elementary.go), because those of the standard library are
// assembly on some machines. They are exported for anyone who must produce equal bytes everywhere.
//
// Accuracy: a pixel index at order 29 is decided with an error below 5e-7 of a pixel's width. A position that lies exactly on an
// edge gets one of the pixels that touch it.
//
// The package is pure: no files, no clock, no state. Everything may be called from any number of goroutines.
package sky
