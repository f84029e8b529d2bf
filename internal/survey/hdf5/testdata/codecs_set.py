"""Datasets of every filter, element type and option, for make.py (needs hdf5plugin).

The small set holds every option of every filter with a few element types, the full set every combination.
"""

import ctypes
import itertools

import h5py
import hdf5plugin
import numpy as np

H5D, H5P, H5S, H5T, H5Z = h5py.h5d, h5py.h5p, h5py.h5s, h5py.h5t, h5py.h5z

INTS = [order + sign + str(size) for size in (1, 2, 4, 8) for sign in "iu" for order in ("<>" if size > 1 else "<")]
FLOATS = [order + "f" + str(size) for size in (2, 4, 8) for order in "<>"]
ROW = np.dtype([("id", "<i8"), ("mag", ">f4", (3,)), ("flag", "u1"), ("name", "S6")])


def values(rng, dtype, shape):
    """Numbers as compressors like them: neighbours are close, some are not."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape))
    if dtype.names:
        out = np.zeros(n, dtype)
        out["id"], out["mag"] = np.arange(n) * 3, rng.normal(20, 1, (n, 3))
        out["flag"], out["name"] = rng.integers(0, 3, n), b"name"
        return out.reshape(shape)
    if dtype.kind == "f":
        return np.round(np.cumsum(rng.normal(0, 0.25, n)), 2).astype(dtype).reshape(shape)
    info = np.iinfo(dtype)
    walk = np.cumsum(rng.integers(-2, 3, n)) + (n if dtype.kind == "u" else -9)
    return walk.clip(info.min, info.max).astype(dtype).reshape(shape)


def plain(f, name, data, chunks, **kw):
    """A dataset of no filter where the writer refuses the combination would prove nothing: refusals are errors."""
    return f.create_dataset(name, data=data, chunks=chunks, **kw)


def built(f, name, dtype, data, chunks, *settings, undefined_fill=False):
    """A dataset made with calls (name, arguments...) on its creation properties, those of the library among them."""
    from make import LIBRARY, library

    plist = H5P.create(H5P.DATASET_CREATE)
    plist.set_chunk(chunks)
    if undefined_fill and LIBRARY.H5Pset_fill_value(ctypes.c_int64(plist.id), ctypes.c_int64(dtype.id), None) < 0:
        raise RuntimeError("H5Pset_fill_value")
    for call, *args in settings:
        if call.startswith("H5P"):
            library(call, plist, *args)
        else:
            getattr(plist, call)(*args)
    d = H5D.create(f.id, name.encode(), dtype, H5S.create_simple(data.shape), plist)
    d.write(H5S.ALL, H5S.ALL, np.ascontiguousarray(data))
    return d


def plugins():
    """Names and arguments of create_dataset for the filters that are plugins."""
    out = {}
    for cname, shuffle in itertools.product(("blosclz", "lz4", "lz4hc", "zlib", "zstd", "snappy"), (0, 1, 2)):
        out[f"blosc_{cname}_{shuffle}"] = hdf5plugin.Blosc(cname=cname, clevel=5, shuffle=shuffle)
    out["blosc_stored"] = hdf5plugin.Blosc(cname="lz4", clevel=0, shuffle=1)
    out["blosc_level9"] = hdf5plugin.Blosc(cname="blosclz", clevel=9, shuffle=1)
    out["blosc_level1"] = hdf5plugin.Blosc(cname="zstd", clevel=1, shuffle=2)
    out["zstd"], out["zstd_22"] = hdf5plugin.Zstd(), hdf5plugin.Zstd(clevel=22)
    out["zstd_fast"] = hdf5plugin.Zstd(clevel=-5)
    out["lz4"], out["lz4_blocks"] = hdf5plugin.LZ4(), hdf5plugin.LZ4(nbytes=500)
    out["bzip2"], out["bzip2_1"] = hdf5plugin.BZip2(), hdf5plugin.BZip2(blocksize=1)
    for cname in ("none", "lz4", "zstd"):
        out[f"bitshuffle_{cname}"] = hdf5plugin.Bitshuffle(cname=cname)
        out[f"bitshuffle_{cname}_blocks"] = hdf5plugin.Bitshuffle(nelems=64, cname=cname)
    return out


def codecs(f, full=False, large=False):
    rng = np.random.default_rng(11)
    # Over the edge on both axes, and enough for blosc to split blocks.
    shape, chunks = ((7, 330), (3, 170)) if full else ((4, 160), (3, 140))
    every = INTS + FLOATS
    few = ["<i2", ">f4"]
    for k, (name, kw) in enumerate(plugins().items()):
        kinds = every if full else [few[k % 2]] if name.startswith("blosc") else few
        for kind in kinds:
            plain(f, f"{name}_{kind}", values(rng, kind, shape), chunks, **kw)
        if full or k % 7 == 0:
            plain(f, f"{name}_row", values(rng, ROW, (60,)), (25,), **kw)
            plain(f, f"{name}_text", np.array([b"ab", b"cde"] * 200, "S5"), (130,), **kw)
            plain(f, f"{name}_noise", np.frombuffer(rng.bytes(1200), "<u4"), (170,), **kw)
            plain(f, f"{name}_same", np.full((3, 2000), 5, "<i4"), (1, 2000), **kw)
            plain(f, f"{name}_odd", values(rng, "<f8", (133,)), (19,), **kw)
        if large:  # several blocks of every codec
            plain(f, f"{name}_large_i4", values(rng, "<i4", (3, 60_001)), (2, 50_003), **kw)
            mixed = np.concatenate(
                [np.zeros(40_000, "<u2"), values(rng, "<u2", (70_000,)), np.arange(9_000, dtype="<u2")]
            )
            plain(f, f"{name}_large_u2", mixed, (118_997,), **kw)
    szip(f, rng, every if full else [*few, "<u1", ">i8", "<f8"], shape, chunks, full)
    scale_offset(f, rng, full)
    nbit(f, rng, full)
    together(f, rng, shape, chunks)


def szip(f, rng, kinds, shape, chunks, full):
    for method, block in itertools.product(("nn", "ec"), (2, 8, 10, 16, 32) if full else (8, 16, 32)):
        for kind in kinds:
            if not full and kind not in ("<i2", ">f4") and (block != 16 or method != "nn"):
                continue
            kw = {"compression": "szip", "compression_opts": (method, block)}
            plain(f, f"szip_{method}_{block}_{kind}", values(rng, kind, shape), chunks, **kw)
            if full:
                plain(f, f"szip_{method}_{block}_{kind}_lines", values(rng, kind, (9, 64)), (4, 64), **kw)
                plain(f, f"szip_{method}_{block}_{kind}_short", values(rng, kind, (21, 20, 5)), (20, 6, 5), **kw)
                plain(f, f"szip_{method}_{block}_{kind}_long", values(rng, kind, (9000,)), (4500,), **kw)
    kw = {"compression": "szip", "compression_opts": ("nn", 16)}
    plain(f, "szip_zeros", np.zeros((3, 3000), "<u2"), (2, 3000), **kw)
    sparse = np.zeros((3, 3000), "<i4")
    sparse[1, 700:710] = rng.integers(-3, 9, 10)
    plain(f, "szip_sparse", sparse, (2, 3000), **kw)
    plain(f, "szip_small", rng.integers(0, 3, (4, 640)).astype("<u2"), (2, 640), **kw)
    plain(f, "szip_noise", np.frombuffer(rng.bytes(1200), "<u2").reshape(3, 200), (2, 200), **kw)
    for bits, size in ((12, 2), (20, 4), (24, 4), (5, 1)):
        kind = {1: H5T.STD_U8LE, 2: H5T.STD_U16LE, 4: H5T.STD_U32LE}[size].copy()
        kind.set_precision(bits)
        data = values(rng, f"<u{size}", (5, 130)) % 2**bits
        built(f, f"szip_{bits}_bits", kind, data, (2, 130), ("set_szip", H5Z.SZIP_NN_OPTION_MASK, 16))
        if size > 1:
            kind = {2: H5T.STD_U16BE, 4: H5T.STD_U32BE}[size].copy()
            kind.set_precision(bits)
            built(f, f"szip_{bits}_bits_big", kind, data, (2, 130), ("set_szip", H5Z.SZIP_NN_OPTION_MASK, 16))


def scale_offset(f, rng, full):
    shape, chunks = ((7, 30), (3, 17)) if full else ((4, 7), (3, 5))
    for kind in INTS if full else ["<i1", ">i2", "<u4", "<i8", ">u8"]:
        data, info = values(rng, kind, shape), np.iinfo(np.dtype(kind))
        plain(f, f"scale_{kind}", data, chunks, scaleoffset=0)
        plain(f, f"scale_{kind}_fill", data, chunks, scaleoffset=0, fillvalue=data[2, 2])
        wide = rng.integers(info.min, info.max, shape, dtype=np.dtype(kind).newbyteorder("="), endpoint=True)
        plain(f, f"scale_{kind}_wide", wide.astype(kind), chunks, scaleoffset=0)
        plain(f, f"scale_{kind}_same", np.full(shape, 9, kind), chunks, scaleoffset=0)
        bits = 6 if np.dtype(kind).itemsize > 1 else 4
        plain(f, f"scale_{kind}_{bits}", (data % 13).astype(kind), chunks, scaleoffset=bits)
        dtype = H5T.py_create(np.dtype(kind))
        offset = ("set_scaleoffset", H5Z.SO_INT, 0)
        built(f, f"scale_{kind}_nofill", dtype, data, chunks, offset, undefined_fill=True)
        built(f, f"scale_{kind}_nofill_same", dtype, np.full(shape, 9, kind), chunks, offset, undefined_fill=True)
    for kind in ("<f4", ">f4", "<f8", ">f8"):
        data = values(rng, kind, shape)
        for digits in (0, 1, 2, 5, 12):
            plain(f, f"scale_{kind}_{digits}", data, chunks, scaleoffset=digits)
        plain(f, f"scale_{kind}_fill", data, chunks, scaleoffset=2, fillvalue=data[1, 1])
        plain(f, f"scale_{kind}_same", np.full(shape, -2.5, kind), chunks, scaleoffset=3)
        plain(f, f"scale_{kind}_large", data * np.asarray(1e9, kind), chunks, scaleoffset=4)
        dtype = H5T.py_create(np.dtype(kind))
        offset = ("set_scaleoffset", H5Z.SO_FLOAT_DSCALE, 3)
        built(f, f"scale_{kind}_nofill", dtype, data, chunks, offset, undefined_fill=True)
        built(f, f"scale_{kind}_nofill_same", dtype, data * 0 + 1, chunks, offset, undefined_fill=True)


def narrow_float(order, size, exponent, mantissa):
    """A float of a size, or of a shape, that IEEE 754 has not."""
    kind = getattr(H5T, f"IEEE_F64{order}").copy()
    kind.set_fields(exponent + mantissa, mantissa, exponent, 0, mantissa)
    kind.set_precision(1 + exponent + mantissa)
    kind.set_size(size)
    kind.set_ebias(2 ** (exponent - 1) - 1)
    return kind


def nbit(f, rng, full):
    shape, chunks = ((7, 30), (3, 17)) if full else ((4, 7), (3, 5))
    pack = ("H5Pset_nbit",)
    cases = [(1, 5, 2), (2, 9, 0), (2, 11, 3), (4, 17, 4), (4, 20, 0), (4, 31, 1), (8, 40, 7), (8, 61, 0), (8, 3, 50)]
    for size, bits, at in cases:
        for sign, order in itertools.product("IU", ("LE", "BE")):
            if not full and (sign, order) not in (("I", "LE"), ("U", "BE")):
                continue
            kind = getattr(H5T, f"STD_{sign}{8 * size}{order}").copy()
            kind.set_precision(bits)
            kind.set_offset(at)
            span = 2 ** (bits - 1)
            low = -span if sign == "I" else 0
            data = rng.integers(low, low + 2 * span - 1, shape, dtype=f"{sign.lower()}8", endpoint=True)
            data = data.astype(f"{sign.lower()}{size}")
            name = f"nbit_{sign}{8 * size}{order}_{bits}_{at}"
            built(f, name, kind, data, chunks, pack)
            if full or size == 4:
                built(f, name + "_plain", kind, data, chunks)
    for kind in INTS + FLOATS if full else ["<i2", ">f4"]:
        data = values(rng, kind, shape)
        built(f, f"nbit_{kind}", H5T.py_create(np.dtype(kind)), data, chunks, pack)
    for order, twenty in (("LE", H5T.IEEE_F32LE.copy()), ("BE", H5T.IEEE_F32BE.copy())):
        twenty.set_fields(26, 20, 6, 7, 13)
        twenty.set_offset(7)
        twenty.set_precision(20)
        twenty.set_size(4)
        twenty.set_ebias(31)
        data = values(rng, "<f4", shape)
        data[0, :6] = [0, -0.0, np.inf, -np.inf, 2.0**-31, -(2.0**-33)]
        built(f, f"nbit_f20{order}", twenty, data, chunks, pack)
        built(f, f"plain_f20{order}", twenty, data, chunks)
    for order, (size, exponent, mantissa) in itertools.product(
        ("LE", "BE"), ((2, 8, 7), (3, 8, 15), (3, 5, 10), (6, 11, 36))
    ):
        kind = narrow_float(order, size, exponent, mantissa)
        data = values(rng, "<f8", shape)
        data[0, :5] = [0, -0.0, np.inf, -np.inf, 2.0 ** (1 - 2 ** (exponent - 1))]
        name = f"{order}_{size}_{exponent}_{mantissa}"
        built(f, f"nbit_float{name}", kind, data, chunks, pack)
        d = built(f, f"plain_float{name}", kind, data, chunks)
        space = H5S.create_simple(shape)
        h5py.h5a.create(d, b"copy", kind, space).write(data)
    row = H5T.create(H5T.COMPOUND, 44)
    odd = H5T.STD_I32BE.copy()
    odd.set_precision(19)
    odd.set_offset(3)
    short = H5T.STD_U16LE.copy()
    short.set_precision(10)
    text = H5T.C_S1.copy()
    text.set_size(5)
    inner = H5T.create(H5T.COMPOUND, 6)
    inner.insert(b"x", 0, short)
    inner.insert(b"y", 2, odd)
    row.insert(b"a", 1, odd)
    row.insert(b"b", 6, H5T.array_create(short, (2, 2)))
    row.insert(b"c", 14, text)
    row.insert(b"e", 39, H5T.STD_I8LE)
    # Last: the library writes what follows an array of rows wrongly.
    row.insert(b"d", 20, H5T.array_create(inner, (3,)))
    inside = np.dtype([("x", "<u2"), ("y", "<i4")])
    data = np.zeros(50, [("a", "<i4"), ("b", "<u2", (2, 2)), ("c", "S5"), ("e", "i1"), ("d", inside, (3,))])
    data["a"], data["b"] = rng.integers(-(2**18), 2**18, 50), rng.integers(0, 2**10, (50, 2, 2))
    data["c"], data["e"] = b"text", np.arange(50) - 20
    data["d"]["x"], data["d"]["y"] = rng.integers(0, 2**10, (50, 3)), rng.integers(-(2**18), 2**18, (50, 3))
    for name, settings in (("nbit_row", (pack,)), ("nbit_row_gzip", (pack, ("set_deflate", 4))), ("plain_row", ())):
        built(f, name, row, data, (20,), *settings)


def together(f, rng, shape, chunks):
    """Several filters, masks, and chunks that were never written."""
    data = values(rng, "<i4", shape)
    whole = {"shuffle": True, "fletcher32": True}
    plain(f, "shuffle_zstd_fletcher", data, chunks, **whole, **hdf5plugin.Zstd())
    plain(f, "shuffle_lz4_fletcher", data, chunks, **whole, **hdf5plugin.LZ4())
    plain(f, "shuffle_bzip2_fletcher", data, chunks, **whole, **hdf5plugin.BZip2())
    plain(f, "shuffle_szip", data, chunks, shuffle=True, compression="szip")
    plain(f, "scale_shuffle_gzip", data, chunks, scaleoffset=0, compression="gzip")
    plain(f, "scale_zstd", data, chunks, scaleoffset=0, **hdf5plugin.Zstd())
    deflate, fletcher = ("set_deflate", 4), ("set_fletcher32",)
    lz4 = ("set_filter", 32004, 0, ())
    kind = H5T.STD_I32LE
    built(f, "fletcher_deflate_lz4", kind, data, chunks, fletcher, deflate, lz4)
    built(f, "lz4_lz4_fletcher", kind, data, chunks, lz4, lz4, fletcher)
    built(f, "szip_deflate", kind, data, chunks, ("set_szip", H5Z.SZIP_NN_OPTION_MASK, 16), deflate)
    built(f, "blosc_deflate", kind, data, chunks, ("set_filter", 32001, 0, (0, 0, 0, 0, 5, 1, 0)), deflate)
    for name, kw in (("zstd", hdf5plugin.Zstd()), ("scale", {"scaleoffset": 0}), ("blosc", hdf5plugin.Blosc())):
        d = f.create_dataset(f"holes_{name}", (20, 40), "<i2", chunks=(6, 7), fillvalue=-3, **kw)
        d[7:9, 12:30] = 5
    d = f.create_dataset("masks_zstd", (4, 100), "<i4", chunks=(1, 100), shuffle=True, **hdf5plugin.Zstd())
    rows = values(rng, "<i4", (4, 100))
    d[0] = rows[0]
    zstd = d.id.read_direct_chunk((0, 0))[1]
    d.id.write_direct_chunk((1, 0), rows[1].tobytes(), filter_mask=3)
    d.id.write_direct_chunk((2, 0), rows[2].view("u1").reshape(100, 4).T.tobytes(), filter_mask=2)
    d.id.write_direct_chunk((3, 0), zstd, filter_mask=0)
