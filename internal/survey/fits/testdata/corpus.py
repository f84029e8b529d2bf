"""Writes FITS files of every kind the package reads, and beside them what astropy reads from them.

Usage: corpus.py FOLDER. Values stand as little-endian bytes in files that FOLDER/manifest.json names.
"""

import gzip
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from astropy.io import fits
from astropy.table import Table

warnings.simplefilter("ignore")
out = Path(sys.argv[1])
rng = np.random.default_rng(1)
manifest = {}
count = 0


def dump(a):
    """Writes an array's little-endian bytes and gives the file's name."""
    global count
    a = np.ascontiguousarray(a)
    name = f"v{count}.bin"
    count += 1
    (out / name).write_bytes(a.astype(a.dtype.newbyteorder("<")).tobytes())
    return name


def value(card):
    v = card.value
    if isinstance(v, fits.card.Undefined):
        return ["undefined", ""]
    if isinstance(v, bool):
        return ["bool", str(v)]
    if isinstance(v, int):
        return ["int", str(v)]
    if isinstance(v, float):
        return ["float", v.hex()]
    if isinstance(v, complex):
        return ["complex", v.real.hex() + " " + v.imag.hex()]
    return ["text", v]


def cards(header):
    found = []
    for c in header.cards:
        if c.keyword in ("COMMENT", "HISTORY", ""):
            found.append([c.keyword, "none", str(c.value), ""])
        else:
            found.append([c.keyword, *value(c), c.comment])
    return found


def image(hdu):
    h = hdu.header
    scaled = h.get("BSCALE", 1) != 1 or h.get("BZERO", 0) != 0
    if ("BLANK" in h and not scaled) or hdu._orig_blank == 0:
        return None  # astropy makes floats of integers, and does not see a BLANK of 0
    data = hdu.data
    if data is None:
        return None
    return {"dtype": data.dtype.name, "shape": list(data.shape), "data": dump(data)}


def column(hdu, raw, i):
    c = hdu.columns[i]
    a = hdu.data.field(i)
    form = c.format
    letter = form.p_format if getattr(form, "p_format", None) else form.format
    e = {"name": c.name, "unit": c.unit or ""}
    if getattr(form, "p_format", None):
        e["lens"] = [len(x) if letter != "A" else 1 for x in a]
        if letter == "A":
            e["text"] = [str(np.char.add(x, "")) if np.ndim(x) == 0 else "".join(map(str, x.ravel())) for x in a]
            e["kind"] = "scalar"
            return e
        flat = [np.ravel(x) for x in a]
        e["lens"] = [x.size for x in flat]
        e["kind"] = "list"
        flat = np.concatenate(flat) if flat else np.zeros(0, "f8")
    elif a.dtype.kind in "US":
        e["kind"] = "scalar" if a.ndim == 1 else "list"
        e["text"] = [str(s).rstrip() for s in a.ravel()]
        if a.ndim > 1:
            e["lens"] = [int(np.prod(a.shape[1:]))] * len(a)
        return e
    else:
        flat = np.asarray(a)
        complex_ = flat.dtype.kind == "c"
        e["kind"] = "scalar" if flat.ndim == 1 and not complex_ else "tensor"
        e["shape"] = list(flat.shape[1:])
        if c.null is not None and letter in "BIJK":
            e["valid"] = dump(np.asarray(raw[c.name]) != c.null)
    if letter == "B" and c.bzero == -128 and c.bscale in (None, 1, ""):
        flat = flat.astype("i1")
    e["dtype"] = flat.dtype.name
    e["data"] = dump(flat)
    return e


def ascii_column(hdu, i):
    c = hdu.columns[i]
    a = hdu.data.field(i)
    e = {"name": c.name, "unit": c.unit or "", "kind": "scalar"}
    if a.dtype.kind in "US":
        e["text"] = [str(s).rstrip() for s in a]
    else:
        e.update(dtype=a.dtype.name, shape=[], data=dump(a))
    return e


def describe(name):
    hdus = []
    path = out / name
    with fits.open(path, memmap=False) as hl, fits.open(path, memmap=False, disable_image_compression=True) as plain:
        for hdu, raw in zip(hl, plain, strict=True):
            e = {"name": raw.header.get("EXTNAME", ""), "cards": cards(raw.header)}
            if isinstance(hdu, fits.CompImageHDU) or hdu.is_image:
                e["image"] = image(hdu)
            elif isinstance(hdu, fits.TableHDU):
                e["rows"] = hdu.header["NAXIS2"]
                e["columns"] = [ascii_column(hdu, i) for i in range(len(hdu.columns))] if e["rows"] else []
            else:
                rows = hdu.header["NAXIS2"]
                e["rows"] = rows
                data = np.zeros(0, "u1")
                if rows:
                    data = np.asarray(hdu.data.view(np.recarray).view(hdu.columns.dtype.newbyteorder(">"), np.ndarray))
                e["columns"] = [column(hdu, data, i) for i in range(len(hdu.columns))] if rows else []
            hdus.append(e)
    manifest[name] = hdus


def write(name, *hdus, **kw):
    first = [] if isinstance(hdus[0], fits.PrimaryHDU) else [fits.PrimaryHDU()]
    fits.HDUList([*first, *hdus]).writeto(out / name, overwrite=True, **kw)
    describe(name)


def ragged(dtype, n=30, most=12):
    a = np.empty(n, dtype=object)
    for i in range(n):
        k = int(rng.integers(0, most))
        a[i] = numbers(dtype, (k,))
    return a


def numbers(dtype, shape):
    dt = np.dtype(dtype)
    if dt.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dt.kind in "iu":
        i = np.iinfo(dt)
        return rng.integers(i.min, i.max, shape, dtype=dt, endpoint=True)
    if dt.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dt)
    a = rng.normal(size=shape).astype(dt)
    if a.size > 3:
        a.flat[:3] = [np.nan, np.inf, -0.0]
    return a


def images():
    hdus = [fits.PrimaryHDU(numbers("f4", (100, 120)))]
    for dt in ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]:
        hdus.append(fits.ImageHDU(numbers(dt, (7, 11)), name=dt))
        hdus.append(fits.ImageHDU(numbers(dt, (2, 3, 4, 5)), name=dt, ver=2))
        hdus.append(fits.ImageHDU(numbers(dt, (1,)), name=dt, ver=3))
    hdus.append(fits.ImageHDU(name="EMPTY"))
    write("images.fits", *hdus, checksum=True)

    # Scaling is put into headers by hand, since astropy would scale the values it is given.
    for dt, (lo, hi) in {"u1": (0, 255), "i2": (-300, 300), "i4": (-70000, 70000), "i8": (-(2**40), 2**40)}.items():
        for k, (scale, zero, blank) in enumerate(
            [(0.1, 3, None), (2, 0, 7), (1, 5.5, None), (1e-3, -32768, 9), (1, 32768, None), (3, 2**31, None)]
        ):
            a = rng.integers(lo, hi, (9, 10)).astype(dt)
            if blank:
                a[2, :] = blank
            name = f"scaled_{dt}_{k}.fits"
            fits.PrimaryHDU(a).writeto(out / name, overwrite=True)
            with fits.open(out / name, mode="update", do_not_scale_image_data=True) as f:
                f[0].header["BSCALE"] = scale
                f[0].header["BZERO"] = zero
                if blank:
                    f[0].header["BLANK"] = blank
            describe(name)
    for dt in ["f4", "f8"]:
        name = f"scaled_{dt}.fits"
        fits.PrimaryHDU(numbers(dt, (5, 6))).writeto(out / name, overwrite=True)
        with fits.open(out / name, mode="update", do_not_scale_image_data=True) as f:
            f[0].header["BSCALE"] = 0.1
            f[0].header["BZERO"] = 0.7
        describe(name)

    (out / "zipped.fits.gz").write_bytes(gzip.compress((out / "images.fits").read_bytes()))
    describe("zipped.fits.gz")
    two = (out / "images.fits").read_bytes()
    (out / "members.fits.gz").write_bytes(gzip.compress(two[:5000]) + gzip.compress(two[5000:]))
    describe("members.fits.gz")


def headers():
    h = fits.Header()
    h["LONG"] = (
        "a string that is longer than one card: " + "it's quoted '' & amp " * 12,
        "with a comment that is long, too",
    )
    h["AMP"] = "ends with an ampersand &"
    h["QUOTE"] = "'it''s'"
    h["EMPTY"] = ""
    h["LEAD"] = "   leading and trailing   "
    h["UNDEF"] = None
    h["YES"], h["NO"] = True, False
    h["BIG"], h["HUGE"], h["NEG"] = 9223372036854775807, 12345678901234567890123, -42
    h["REAL"], h["EXP"], h["TINY"] = 0.1, 1.25e300, -4.9e-308
    h["CPLX"] = 1.5 - 2j
    h["HIERARCH ESO DET CHIP1 ID"] = ("CCD-44", "a HIERARCH keyword")
    h["HIERARCH ESO TEL AIRM START"] = 1.234
    h["HIERARCH lower case"] = 5
    h["SLASH"] = ("a / b", "c / d")
    h.add_history("some history")
    h.add_comment("a comment " * 20)
    h.add_blank("blank keyword")
    h.append(("DUP", 1), end=True)
    h.append(("DUP", 2, "the second"), end=True)
    h.extend([(f"K{i}", i) for i in range(200)])
    for text in [
        "DEXP    =              1.5D+03 / a D exponent",
        "DLOW    = -2.5d-2",
        "NOFRAC  = 7.",
        "NOINT   = .5E1 /x",
        "PLUS    = +12",
        "CPLXI   = (1, -2)",
        "UNDEF2  =                      / only a comment",
        "COMMENT = 'not a value'",
        "NOVALUE  without an indicator",
        "STR2    = 'a''b'/tight",
    ]:
        h.append(fits.Card.fromstring(text.ljust(80)), end=True)
    write(
        "headers.fits",
        fits.PrimaryHDU(header=h),
        fits.ImageHDU(numbers("f4", (3, 3)), header=h, name="AGAIN"),
        output_verify="ignore",
    )


def tables():
    n = 30
    cols = []
    for code, dt in {
        "B": "u1",
        "I": "i2",
        "J": "i4",
        "K": "i8",
        "E": "f4",
        "D": "f8",
        "C": "c8",
        "M": "c16",
        "L": "?",
    }.items():
        cols.append(fits.Column(name=f"{code}1", format=code, array=numbers(dt, (n,)), unit="m/s"))
        cols.append(fits.Column(name=f"{code}5", format=f"5{code}", array=numbers(dt, (n, 5))))
        cols.append(fits.Column(name=f"{code}6", format=f"6{code}", array=numbers(dt, (n, 2, 3)), dim="(3,2)"))
        cols.append(fits.Column(name=f"{code}T", format=f"1{code}", array=numbers(dt, (n, 1, 1)), dim="(1,1)"))
        cols.append(
            fits.Column(
                name=f"{code}P",
                format=f"P{code}()" if code != "C" else "4C",
                array=ragged(dt) if code != "C" else numbers(dt, (n, 4)),
            )
        )
        if code not in "CM":
            cols.append(fits.Column(name=f"{code}Q", format=f"Q{code}()", array=ragged(dt)))
    cols = [c for c in cols if c.name != "MP"]
    for bits in [1, 3, 8, 13, 64]:
        cols.append(fits.Column(name=f"X{bits}", format=f"{bits}X", array=rng.integers(0, 2, (n, bits)).astype(bool)))
    for code, dt, half in [("I", "u2", 2**15), ("J", "u4", 2**31), ("K", "u8", 2**63)]:
        cols.append(fits.Column(name=f"U{code}", format=code, array=numbers(dt, (n,)), bzero=half))
        cols.append(fits.Column(name=f"U{code}3", format=f"3{code}", array=numbers(dt, (n, 3)), bzero=half))
    cols.append(fits.Column(name="TEXT", format="12A", array=np.array([f"obj{i}" for i in range(n)])))
    cols.append(
        fits.Column(
            name="TEXTS", format="12A", array=np.array([[f"a{i}", "b", f"{i:04d}"] for i in range(n)]), dim="(4,3)"
        )
    )
    cols.append(fits.Column(name="PA", format="PA()", array=np.array(["x" * (i % 7) for i in range(n)], dtype=object)))
    write("table.fits", fits.BinTableHDU.from_columns(cols, name="T"), checksum=True)
    for name, data in {"norows": cols, "onerow": cols}.items():
        t = fits.BinTableHDU.from_columns(data, nrows=0 if name == "norows" else 1)
        write(f"{name}.fits", t)

    # Scaling and nulls of columns, by hand: the numbers stand in the file as they are.
    raw = []
    for code, dt in {"B": "u1", "I": "i2", "J": "i4", "K": "i8"}.items():
        lo, hi = (0, 200) if code == "B" else (-500, 500)
        raw.append((f"{code}N", code, rng.integers(lo, hi, n).astype(dt), {"TNULL": 5}))
        raw.append((f"{code}S", code, rng.integers(lo, hi, n).astype(dt), {"TSCAL": 0.1, "TZERO": 3}))
        raw.append((f"{code}Z", f"4{code}", rng.integers(lo, hi, (n, 4)).astype(dt), {"TZERO": 2.5}))
        raw.append((f"{code}M", f"2{code}", rng.integers(lo, hi, (n, 2)).astype(dt), {"TSCAL": 7}))
    raw.append(("ES", "E", numbers("f4", (n,)), {"TSCAL": 0.1, "TZERO": -1}))
    raw.append(("DS", "3D", numbers("f8", (n, 3)), {"TSCAL": 0.3}))
    raw.append(("SB", "B", rng.integers(0, 255, n).astype("u1"), {"TZERO": -128}))
    for _, form, a, kw in raw:
        if "K" in form and "TZERO" in kw:  # astropy fails on these
            kw.pop("TZERO")
            kw["TSCAL"] = 0.25
        if "TNULL" in kw:
            a[3:6] = kw["TNULL"]
    t = fits.BinTableHDU.from_columns([fits.Column(name=m, format=f, array=a) for m, f, a, _ in raw], name="S")
    fits.HDUList([fits.PrimaryHDU(), t]).writeto(out / "scaled_table.fits", overwrite=True)
    b = (out / "scaled_table.fits").read_bytes()
    at = b.index(b"XTENSION")
    end = b.index(b"END" + b" " * 77, at)
    extra = b"".join(
        f"{k}{i + 1}".ljust(8).encode() + f"= {v!r:>20}".encode().ljust(72)
        for i, (_, _, _, kw) in enumerate(raw)
        for k, v in kw.items()
    )
    head = b[at:end] + extra + b"END" + b" " * 77
    head += b" " * (-len(head) % 2880)
    data = b[end + 80 + (-(end + 80 - at) % 2880) :]
    (out / "scaled_table.fits").write_bytes(b[:at] + head + data)
    describe("scaled_table.fits")

    k = 5000
    tb = Table(
        {
            "TARGETID": np.arange(k),
            "RA": rng.uniform(0, 360, k),
            "DEC": rng.uniform(-90, 90, k),
            "Z": rng.uniform(0, 3, k).astype("f4"),
            "TYPE": np.array([b"GALAXY"] * k),
            "FLUX": rng.normal(size=(k, 10)).astype("f4"),
        }
    )
    tb.write(out / "bigtable.fits", overwrite=True)
    describe("bigtable.fits")

    ascii_ = [
        fits.Column(name="NAME", format="A10", array=np.array([f"n{i}" for i in range(n)])),
        fits.Column(name="SHORT", format="I4", array=rng.integers(-99, 99, n), unit="ct"),
        fits.Column(name="INT", format="I9", array=rng.integers(-9999, 9999, n)),
        fits.Column(name="LONG", format="I21", array=rng.integers(-(2**60), 2**60, n)),
        fits.Column(name="FIX", format="F12.4", array=rng.normal(size=n)),
        fits.Column(name="EXP", format="E15.7", array=rng.normal(size=n) * 1e10),
        fits.Column(name="DBL", format="D25.17", array=rng.normal(size=n) * 1e-200),
    ]
    write("ascii.fits", fits.TableHDU.from_columns(ascii_, name="A"))


def compressed():
    many = {}

    def add(name, hdu, checksum=False):
        hdu.header["EXTNAME"] = name
        many.setdefault(name.split("_")[1] + "_sums" * checksum, []).append(hdu)

    shape = (45, 70)
    smooth = np.add.outer(np.arange(shape[0]), np.arange(shape[1])) * 3.0
    noise = rng.normal(0, 5, shape)
    for codec in ["RICE_1", "GZIP_1", "GZIP_2", "HCOMPRESS_1", "NOCOMPRESS"]:
        for dt in ["u1", "i2", "u2", "i4", "u4"]:
            if codec == "HCOMPRESS_1" and dt == "u4":
                continue
            d = np.clip(smooth / 3 + noise, 0, 255).astype("u1") if dt == "u1" else (smooth * 50 + noise * 9).astype(dt)
            for k, tile in enumerate([None, (16, 16), (45, 70), (7, 33)]):
                if codec == "HCOMPRESS_1" and k == 3:
                    tile = (9, 10)
                add(
                    f"comp_{codec}_{dt}_{k}",
                    fits.CompImageHDU(d, compression_type=codec, tile_shape=tile),
                    checksum=k == 1,
                )
        if codec.startswith("GZIP") or codec == "NOCOMPRESS":
            for dt in ["i8", "f4", "f8"]:
                d = numbers(dt, shape)
                add(f"comp_{codec}_{dt}", fits.CompImageHDU(d, compression_type=codec, quantize_level=0))
    for dt in ["i4", "i2"]:
        d = numbers(dt, shape)
        add(f"comp_rice_noise_{dt}", fits.CompImageHDU(d, compression_type="RICE_1", tile_shape=(5, 70)))
    add("comp_rice_zero", fits.CompImageHDU(np.zeros(shape, "i4"), compression_type="RICE_1"))
    jumps = np.zeros(shape, "i4")
    jumps[::3, ::40] = 2**30
    jumps[1, 5] = -(2**31)
    add("comp_rice_jumps", fits.CompImageHDU(jumps, compression_type="RICE_1"))
    cube = (rng.normal(size=(3, 20, 31)) * 100).astype("i2")
    for k, tile in enumerate([None, (1, 8, 9), (2, 20, 31), (3, 5, 31)]):
        add(f"comp_cube_{k}", fits.CompImageHDU(cube, compression_type="RICE_1", tile_shape=tile))
    add("comp_line", fits.CompImageHDU(cube[0, 0], compression_type="RICE_1", tile_shape=(10,)))

    mask = (noise > 3).astype("i2")
    for k, d in enumerate(
        [
            mask,
            mask * 1000,
            np.zeros(shape, "i2"),
            (smooth // 7).astype("i2"),
            (smooth * 1000).astype("i4"),
            mask.astype("u1"),
        ]
    ):
        add(f"comp_plio_{k}", fits.CompImageHDU(d, compression_type="PLIO_1", tile_shape=(9, 70)))

    for dt in ["f4", "f8"]:
        d = (smooth + noise).astype(dt)
        holes = d.copy()
        holes[3:5, 10:40] = np.nan
        zeros = d.copy()
        zeros[7, ::2] = 0
        for codec in ["RICE_1", "GZIP_1", "GZIP_2", "HCOMPRESS_1"]:
            for method in [-1, 1, 2]:
                for k, (a, seed) in enumerate([(d, 1), (zeros, 9999), (holes, 10000)]):
                    if codec == "HCOMPRESS_1" and k == 2:
                        continue
                    add(
                        f"comp_q_{codec}_{dt}_{method}_{k}",
                        fits.CompImageHDU(
                            a,
                            compression_type=codec,
                            quantize_level=16,
                            quantize_method=method,
                            dither_seed=seed,
                            tile_shape=(16, 16) if k else None,
                        ),
                    )
        big = rng.normal(size=(130, 200)).astype(dt)
        add(
            f"comp_q_rows_{dt}",
            fits.CompImageHDU(big, compression_type="RICE_1", quantize_level=4, quantize_method=1, dither_seed=17),
        )
        flat = np.full(shape, 1.25, dt)
        flat[4] = rng.normal(size=shape[1]) * 10.0 ** rng.integers(-30, 30, shape[1])
        add(f"comp_fallback_{dt}", fits.CompImageHDU(flat, compression_type="RICE_1", quantize_level=1e-6))
        for scale, smoothing in [(2, 0), (5, 1), (16, 1)]:
            add(
                f"comp_hlossy_{dt}_{scale}_{smoothing}",
                fits.CompImageHDU(
                    d,
                    compression_type="HCOMPRESS_1",
                    hcomp_scale=scale,
                    hcomp_smooth=smoothing,
                    tile_shape=(23, 35),
                    quantize_method=-1,
                ),
            )
    for scale, smoothing in [(3, 0), (4, 1), (40, 1)]:
        d = (smooth * 50 + noise * 9).astype("i4")
        add(
            f"comp_hlossy_i4_{scale}_{smoothing}",
            fits.CompImageHDU(
                d, compression_type="HCOMPRESS_1", hcomp_scale=scale, hcomp_smooth=smoothing, tile_shape=(45, 70)
            ),
        )
    for k, hdus in many.items():
        write(f"comp_{k}.fits.fz", *hdus, checksum=k.endswith("_sums"))


def odd():
    """Tables written byte by byte: what astropy reads and does not write."""

    def raw(name, rows, width, pcount, data, fields, want=None, **more):
        h = fits.Header(
            [
                ("XTENSION", "BINTABLE"),
                ("BITPIX", 8),
                ("NAXIS", 2),
                ("NAXIS1", width),
                ("NAXIS2", rows),
                ("PCOUNT", pcount),
                ("GCOUNT", 1),
                ("TFIELDS", len(fields)),
            ]
        )
        for i, field in enumerate(fields):
            for k, v in field.items():
                h[f"{k}{i + 1}"] = v
        h.update(more)
        empty = fits.PrimaryHDU().header.tostring().encode()
        data += b"\0" * (-len(data) % 2880)
        (out / name).write_bytes(empty + h.tostring().encode() + data)
        describe(name)
        if want is not None:
            e = manifest[name][1]["columns"][0]
            e.update(dtype=want.dtype.name, shape=list(want.shape[1:]), data=dump(want))

    heap = numbers("i4", 40).astype(">i4").tobytes()
    table = np.array([[3, 8], [0, 999], [5, 60], [4, 8], [1, 0]], ">i4")
    gap = b"gap of bytes"
    raw(
        "theap.fits",
        5,
        8,
        len(gap) + len(heap),
        table.tobytes() + gap + heap,
        [{"TTYPE": "V", "TFORM": "1PJ(5)"}],
        THEAP=table.nbytes + len(gap),
    )
    wide = np.array([[3, 8], [0, 0], [5, 60]], ">i8")
    raw("wide_heap.fits", 3, 16, len(heap), wide.tobytes() + heap, [{"TTYPE": "V", "TFORM": "QE(5)"}])
    # By the standard scales apply to arrays, too; astropy 8.0 puts what it scaled back into the type it had.
    half = (np.frombuffer(heap, ">i2")[4:7].astype("i4") + 32768).astype("u2")
    raw(
        "unsigned_heap.fits",
        1,
        8,
        len(heap),
        table[:1].tobytes() + heap,
        [{"TTYPE": "V", "TFORM": "PI", "TZERO": 32768}],
        half,
    )
    scaled = np.frombuffer(heap, ">i4")[2:5] * 0.1 + 2.5
    raw(
        "scaled_heap.fits",
        1,
        8,
        len(heap),
        table[:1].tobytes() + heap,
        [{"TTYPE": "V", "TFORM": "PJ", "TSCAL": 0.1, "TZERO": 2.5}],
        scaled,
    )
    fixed = numbers("f4", (4, 6)).astype(">f4").tobytes()
    # A TDIM may be smaller than the count; astropy 8.0 then takes rows for shorter than they are.
    first = np.frombuffer(fixed, ">f4").reshape(4, 6)[:, :4].reshape(4, 2, 2)
    raw("short_tdim.fits", 4, 24, 0, fixed, [{"TTYPE": "M", "TFORM": "6E", "TDIM": "(2,2)"}], first)
    raw(
        "text_tdim.fits",
        2,
        12,
        0,
        b"abcdefghijkl" * 2,
        [{"TTYPE": "T", "TFORM": "6A", "TDIM": "(6)"}, {"TTYPE": "U", "TFORM": "A6"}],
    )
    raw(
        "no_tform_count.fits",
        2,
        6,
        0,
        b"\x01\x02\x03\x04\x05\x06" * 2,
        [{"TTYPE": "A", "TFORM": "I"}, {"TTYPE": "B", "TFORM": "1J", "TUNIT": "km s-1"}],
    )
    raw("no_columns.fits", 0, 0, 0, b"", [])


images()
headers()
tables()
compressed()
odd()
(out / "manifest.json").write_text(json.dumps(manifest))
