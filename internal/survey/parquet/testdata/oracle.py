"""Writes Parquet files of every kind with pyarrow, and judges by pyarrow's own values what the Go reader made of a file.

    python oracle.py make DIR
    python oracle.py judge DUMP [DUMP ...]

A dump is a JSON file with the path of a Parquet file, and for each field what the reader found and where in the file
beside it (.bin) its vector stands. Prints what differs, and fails if anything does. Needs pyarrow, numpy and astropy.
"""

import gzip
import io
import itertools
import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

rng = np.random.default_rng(7)


# ---- files


def holes(values, every=7, at=3):
    return [None if i % every == at else v for i, v in enumerate(values)]


def scalars(n):
    ints = {}
    for bits in (8, 16, 32, 64):
        for kind in ("int", "uint"):
            dt = np.dtype(f"{kind}{bits}")
            info = np.iinfo(dt)
            v = rng.integers(info.min, info.max, n, dtype=dt, endpoint=True)
            if n > 1:
                v[0], v[1] = info.min, info.max
            ints[f"{kind}{bits}"] = pa.array(v)
            ints[f"{kind}{bits}_null"] = pa.array(v, mask=rng.random(n) < 0.3)
    f64 = rng.standard_normal(n)
    if n > 5:
        f64[:5] = [np.nan, np.inf, -np.inf, -0.0, 5e-324]
        f64.view(np.uint64)[5] = 0x7FF80000DEADBEEF
    text = [("", "é", "plain", "x" * 300, "日本")[i % 5] + str(i % 50) for i in range(n)]
    cols = {
        **ints,
        "f16": pa.array(f64.astype(np.float32).astype(np.float16)),
        "f32": pa.array(f64.astype(np.float32)),
        "f64": pa.array(f64),
        "f64_null": pa.array(f64, mask=rng.random(n) < 0.5),
        "few": pa.array(np.round(f64, 0) if n == 0 else rng.integers(0, 9, n).astype(np.float32)),
        "flag": pa.array(rng.random(n) < 0.5),
        "flag_null": pa.array(rng.random(n) < 0.5, mask=rng.random(n) < 0.2),
        "text": pa.array(text, pa.string()),
        "text_null": pa.array(holes(text), pa.string()),
        "large_text": pa.array(text, pa.large_string()),
        "category": pa.array(holes([f"c{i % 4}" for i in range(n)]), pa.string()).dictionary_encode(),
        "decimal": pa.array([i - 3 for i in range(n)], pa.decimal128(12, 0)),
        "wide_decimal": pa.array(holes([(i - 3) * 10**15 for i in range(n)]), pa.decimal128(30, 0)),
        "date": pa.array(range(n), pa.date32()),
        "time_ms": pa.array(range(n), pa.time32("ms")),
        "time_us": pa.array(range(n), pa.time64("us")),
        "time_ns": pa.array(range(n), pa.time64("ns")),
        "stamp_ms": pa.array(range(n), pa.timestamp("ms")),
        "stamp_us": pa.array(holes(list(range(n))), pa.timestamp("us", tz="UTC")),
        "stamp_ns": pa.array(range(n), pa.timestamp("ns")),
        "duration": pa.array(range(n), pa.duration("us")),
        "nothing": pa.array([None] * n, pa.float64()),
        "nothing_text": pa.array([None] * n, pa.string()),
    }
    fields = [pa.field(k, v.type, metadata={"unit": "Jy"} if k == "f32" else None) for k, v in cols.items()]
    fields[0] = pa.field("int8", pa.int8(), nullable=False)
    return pa.Table.from_arrays(list(cols.values()), schema=pa.schema(fields))


def nested(n):
    def lens(i):
        return (i * 7) % 5

    inner = [
        None
        if i % 11 == 5
        else {
            "ra": i / 3,
            "name": f"n{i}",
            "deep": None if i % 5 == 1 else {"x": i, "deeper": {"y": None if i % 3 == 0 else float(i)}},
        }
        for i in range(n)
    ]
    inner_type = pa.struct(
        [
            ("ra", pa.float64()),
            ("name", pa.string()),
            ("deep", pa.struct([("x", pa.int32()), ("deeper", pa.struct([("y", pa.float32())]))])),
        ]
    )
    curve = [
        None
        if i % 13 == 6
        else {
            "t": [float(k) for k in range(lens(i))],
            "f": [None if (k + i) % 6 == 5 else k * 0.5 for k in range(lens(i))],
            "band": ["ugriz"[k % 5] for k in range(lens(i))],
        }
        for i in range(n)
    ]
    curve_type = pa.struct(
        [("t", pa.list_(pa.float64())), ("f", pa.list_(pa.float32())), ("band", pa.list_(pa.string()))]
    )
    unequal = [{"a": [1.0] * lens(i), "b": [2] * (lens(i) + i % 2)} for i in range(n)]
    objects = [
        None
        if i % 9 == 4
        else [
            None
            if (i + k) % 17 == 16
            else {"jd": k + i / 7, "id": None if k % 4 == 3 else k, "who": f"w{k}", "in": {"q": k % 2 == 0}}
            for k in range(lens(i))
        ]
        for i in range(n)
    ]
    objects_type = pa.list_(
        pa.struct(
            [("jd", pa.float64()), ("id", pa.float32()), ("who", pa.string()), ("in", pa.struct([("q", pa.float16())]))]
        )
    )
    objects = [
        None if o is None else [None if e is None else {**e, "in": {"q": np.float16(e["in"]["q"])}} for e in o]
        for o in objects
    ]
    lists = [{"ok": k, "bad": [k] * 2} for k in range(3)]
    return pa.table(
        {
            "s": pa.array(inner, inner_type),
            "curve": pa.array(curve, curve_type),
            "unequal": pa.array(unequal, pa.struct([("a", pa.list_(pa.float64())), ("b", pa.list_(pa.int32()))])),
            "objects": pa.array(objects, objects_type),
            "inside": pa.array(
                [lists[: lens(i)] for i in range(n)],
                pa.list_(pa.struct([("ok", pa.int64()), ("bad", pa.list_(pa.int8()))])),
            ),
            "map": pa.array(
                [None if i % 8 == 2 else [(f"k{k}", f"v{k}") for k in range(lens(i))] for i in range(n)],
                pa.map_(pa.string(), pa.string()),
            ),
            "map_of": pa.array(
                [[(k, {"m": k / 2, "n": i}) for k in range(lens(i))] for i in range(n)],
                pa.map_(pa.int32(), pa.struct([("m", pa.float64()), ("n", pa.int64())])),
            ),
            "ragged": pa.array(holes([[float(k) for k in range(lens(i))] for i in range(n)]), pa.list_(pa.float32())),
            "ragged_null": pa.array(
                [[None if k == 2 else float(k) for k in range(lens(i))] for i in range(n)], pa.list_(pa.float64())
            ),
            "words": pa.array(
                [[None if k == 3 else f"w{k}é" for k in range(lens(i))] for i in range(n)], pa.list_(pa.string())
            ),
            "large": pa.array([list(range(lens(i))) for i in range(n)], pa.large_list(pa.uint16())),
            "in_struct": pa.array(
                [{"l": [i] * lens(i), "x": i % 100} for i in range(n)],
                pa.struct([("l", pa.list_(pa.int64())), ("x", pa.int8())]),
            ),
        }
    )


def tensors(n):
    def cube(shape, dt):
        return [
            np.arange(i, i + int(np.prod(shape)), dtype=np.float64).astype(dt).reshape(shape).tolist() for i in range(n)
        ]

    image = {
        "band": [["g", "r"]] * n,
        "flux": cube((2, 3, 4), np.float32),
        "mask": [[[[bool((i + k) % 3) for k in range(4)]] * 3] * 2 for i in range(n)],
        "scale": cube((2,), np.float32),
    }
    image_type = pa.struct(
        [
            ("band", pa.list_(pa.string())),
            ("flux", pa.list_(pa.list_(pa.list_(pa.float32())))),
            ("mask", pa.list_(pa.list_(pa.list_(pa.bool_())))),
            ("scale", pa.list_(pa.float32())),
        ]
    )
    fsl = pa.list_(pa.list_(pa.int16(), 3), 2)
    declared = pa.fixed_shape_tensor(pa.float64(), (2, 3))
    return pa.table(
        {
            "image": pa.array([dict(zip(image, row)) for row in zip(*image.values())], image_type),
            "spectrum": pa.array(
                [{"flux": row, "ivar": row} for row in cube((5,), np.float32)],
                pa.struct([("flux", pa.list_(pa.float32())), ("ivar", pa.list_(pa.float64()))]),
            ),
            "coeff": pa.array(cube((7,), np.float64), pa.list_(pa.float64())),
            "coeff_null": pa.array(
                [[None if (i + k) % 5 == 0 else float(k) for k in range(6)] for i in range(n)], pa.list_(pa.float32())
            ),
            "rows_null": pa.array(holes(cube((3, 2), np.float32)), pa.list_(pa.list_(pa.float32()))),
            "fixed": pa.array(cube((2, 3), np.int16), fsl),
            "fixed_null": pa.array(holes(cube((4,), np.uint8)), pa.list_(pa.uint8(), 4)),
            "ext": pa.ExtensionArray.from_storage(
                declared, pa.array(cube((6,), np.float64), pa.list_(pa.float64(), 6))
            ),
            "uneven": pa.array([[[1.0] * (1 + i % 2)] * 2 for i in range(n)], pa.list_(pa.list_(pa.float32()))),
            "texts": pa.array([[["a"]]] * n, pa.list_(pa.list_(pa.string()))),
        }
    )


def cutouts(n):
    from astropy.io import fits

    def stamp(i, zipped):
        b = io.BytesIO()
        fits.PrimaryHDU(np.arange(i, i + 12, dtype=np.float32).reshape(3, 4)).writeto(b)
        return gzip.compress(b.getvalue()) if zipped else b.getvalue()

    return pa.table(
        {
            "plain": pa.array(holes([stamp(i, False) for i in range(n)], at=0), pa.binary()),
            "s": pa.array(
                [{"name": str(i), "data": stamp(i, True)} for i in range(n)],
                pa.struct([("name", pa.string()), ("data", pa.binary())]),
            ),
            "other": pa.array([b"\x00\x01"] * n, pa.binary()),
            "void": pa.array([None] * n, pa.binary()),
        }
    )


def refused(n):
    import decimal

    return pa.table(
        {
            "cents": pa.array([decimal.Decimal("1.25")] * n, pa.decimal128(9, 2)),
            "null": pa.nulls(n),
            "bytes4": pa.array([b"abcd"] * n, pa.binary(4)),
            "good": pa.array(range(n), pa.int32()),
            "lists": pa.array([[[{"a": 1}]]] * n, pa.list_(pa.list_(pa.struct([("a", pa.int8())])))),
        }
    )


def make(out):
    os.makedirs(out, exist_ok=True)

    def write(name, table, **kw):
        pq.write_table(table, os.path.join(out, name + ".parquet"), **kw)

    base = {"scalars": scalars, "nested": nested, "tensors": tensors}
    for name, f in base.items():
        t = f(400)
        write(name, t, row_group_size=130)
        write(name + "_empty", t.slice(0, 0))
        write(name + "_one", t.slice(0, 1))
        write(name + "_two", t.slice(0, 2))
        for codec in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
            write(f"{name}_{codec}", t, compression=codec, data_page_size=2000, write_batch_size=16, row_group_size=190)
        write(
            name + "_v2",
            t,
            data_page_version="2.0",
            data_page_size=1500,
            write_batch_size=16,
            compression="zstd",
            write_page_checksum=True,
        )
        write(name + "_v2_raw", t, data_page_version="2.0", data_page_size=900, write_batch_size=16, compression="none")
        write(name + "_crc", t, write_page_checksum=True, data_page_size=3000, write_batch_size=16)
        write(name + "_plain", t, use_dictionary=False, write_statistics=False, data_page_size=5000)
        old = t.drop_columns([c for c in t.column_names if c.endswith("_ns")])
        write(name + "_old", old, version="1.0", store_schema=False)
    t = scalars(400)
    delta = {
        n: "DELTA_BINARY_PACKED"
        for n in t.column_names
        if pa.types.is_integer(t.schema.field(n).type) or n.startswith(("stamp", "time", "date"))
    }
    delta |= {
        "text": "DELTA_BYTE_ARRAY",
        "text_null": "DELTA_LENGTH_BYTE_ARRAY",
        "large_text": "DELTA_BYTE_ARRAY",
        "wide_decimal": "DELTA_BYTE_ARRAY",
    }
    delta |= dict.fromkeys(("f16", "f32", "f64", "f64_null", "decimal"), "BYTE_STREAM_SPLIT") | {
        "flag": "RLE",
        "flag_null": "RLE",
    }
    for v in ("1.0", "2.0"):
        write(
            "encoded_" + v[0], t, use_dictionary=False, column_encoding=delta, data_page_version=v, data_page_size=4000
        )
    write(
        "split_ints",
        t.select(["int32", "int64", "uint32_null"]),
        use_dictionary=False,
        use_byte_stream_split=["int32", "int64", "uint32_null"],
    )
    nt = nested(300)
    write(
        "encoded_nested",
        nt.select(["ragged", "words"]),
        use_dictionary=False,
        data_page_version="2.0",
        column_encoding={"ragged.list.element": "BYTE_STREAM_SPLIT", "words.list.element": "DELTA_BYTE_ARRAY"},
    )
    write("compliant_off", nt.select(["ragged", "objects", "words"]), use_compliant_nested_type=False)
    write("cutouts", cutouts(20), row_group_size=6)
    write("refused", refused(5))
    write(
        "int96",
        pa.table(
            {"t": pa.array([0, 1, -1, 1769700000123456789, -9000000000000000000], pa.timestamp("ns")), "x": range(5)}
        ),
        use_deprecated_int96_timestamps=True,
    )
    write(
        "integers_as_decimals",
        pa.table(
            {"d": pa.array([1, -2, None], pa.decimal128(9, 0)), "e": pa.array([10**15, None, -1], pa.decimal128(18, 0))}
        ),
        store_decimal_as_integer=True,
    )
    write(
        "uuid",
        pa.table(
            {
                "u": pa.ExtensionArray.from_storage(
                    pa.uuid(), pa.array([bytes(range(i, i + 16)) for i in range(9)] + [None], pa.binary(16))
                )
            }
        ),
    )
    big = pa.table(
        {
            "a": rng.standard_normal(60_000),
            "b": pa.array(holes(list(range(60_000))), pa.int64()),
            "l": pa.array([list(range(i % 4)) for i in range(60_000)], pa.list_(pa.int32())),
        }
    )
    write("large_group", big, row_group_size=60_000)
    bad = pa.table(
        {
            "good": range(4),
            "text": pa.array([b"ok", b"fine", b"\xff\xfe", b"x"], pa.binary()).view(pa.string()),
            "list": pa.array([[b"a"], [], [b"b", b"\xff"], []], pa.list_(pa.binary())).cast(pa.list_(pa.binary())),
        }
    )
    raw = pa.ListArray.from_arrays([0, 1, 1, 3, 3], pa.array([b"a", b"b", b"\xff"], pa.binary()).view(pa.string()))
    write("not_utf8", bad.set_column(2, "list", raw))
    huggingface(out)


def huggingface(out):
    """A file as Hugging Face's datasets writes it: nested lists, and the shapes in the footer's key."""
    features = {
        "img": {"shape": [2, 3], "dtype": "float32", "_type": "Array2D"},
        "s": {
            "a": {"shape": [1, 2, 2], "dtype": "uint8", "_type": "Array3D"},
            "c": {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"},
        },
        "d": {"shape": [None, 3], "dtype": "float32", "_type": "Array2D"},
    }
    t = pa.table(
        {
            "img": pa.array([[[1, 2, 3], [4, 5, 6]]], pa.list_(pa.list_(pa.float32()))),
            "s": pa.array(
                [{"a": [[[1, 2], [3, 4]]], "c": [1.5]}],
                pa.struct([("a", pa.list_(pa.list_(pa.list_(pa.uint8())))), ("c", pa.list_(pa.float32()))]),
            ),
            "d": pa.array([[[1, 2, 3]]], pa.list_(pa.list_(pa.float32()))),
        }
    )
    t = t.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(t, os.path.join(out, "huggingface.parquet"))


# ---- judging


def plain(a):
    if isinstance(a, pa.ChunkedArray):
        a = a.combine_chunks()
    if isinstance(a, pa.ChunkedArray):
        a = a.chunk(0) if a.num_chunks else pa.array([], a.type)
    if isinstance(a, pa.ExtensionArray):
        a = a.storage
    if pa.types.is_dictionary(a.type):
        a = a.dictionary_decode()
    return a


def members(a):
    """The leaves of a struct array by joined names, nulls of the struct included."""
    out = {}
    for f, c in zip(a.type, a.flatten()):
        c = plain(c)
        if pa.types.is_struct(c.type):
            out |= {f"{f.name}_{k}": v for k, v in members(c).items()}
        else:
            out[f.name] = c
    return out


def listy(t):
    return pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t)


def values(a, dtype, fill=None):
    """The little-endian bytes of an array, nulls as fill or left out."""
    a = plain(a)
    if fill is None:
        a = a.drop_null()
    if dtype == "string":
        if pa.types.is_fixed_size_binary(a.type):
            import uuid

            return [b"" if v is None else str(uuid.UUID(bytes=v)).encode() for v in a.to_pylist()]
        return [b"" if v is None else v.encode() for v in a.to_pylist()]
    if pa.types.is_decimal(a.type):
        return np.array([int(v) for v in a.to_pylist()], dtype).tobytes()
    if pa.types.is_temporal(a.type):
        a = a.cast(pa.int32() if a.type.bit_width == 32 else pa.int64())
    if a.null_count:
        valid = a.is_valid().to_numpy(zero_copy_only=False)
        out = np.full(len(a), fill, dtype)
        out[valid] = a.drop_null().to_numpy(zero_copy_only=False)
        return out.tobytes()
    v = a.to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(a.type):
        v = v.astype(np.uint8)
        return v.tobytes()
    if v.dtype != np.dtype(dtype):
        raise ValueError(f"{v.dtype} read as {dtype}")
    return np.ascontiguousarray(v).tobytes()


def image(raw):
    from astropy.io import fits

    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    with fits.open(io.BytesIO(raw)) as f:
        return next(h.data for h in f if h.data is not None)


class Part:
    """A vector of the dump."""

    def __init__(self, doc, blob):
        def take(key, dt):
            if key not in doc:
                return None
            at, n = doc[key]
            return np.frombuffer(blob[at : at + n], dt)

        self.data = take("data", np.uint8)
        self.offsets = take("offsets", np.int64)
        self.stroffsets = take("stroffsets", np.int64)
        self.valid = take("valid", np.uint8)
        self.members = [Part(m, blob) for m in doc.get("members", [])]

    def texts(self, off):
        b = self.data.tobytes()
        return [b[lo:hi] for lo, hi in itertools.pairwise(off)]


def same(what, got, want):
    if isinstance(got, np.ndarray):
        got = got.tobytes()
    if got == want:
        return []
    if isinstance(want, bytes):
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        return [f"{what}: {len(got)} bytes, {len(want)} wanted, first difference at byte {at}"]
    return [f"{what}: {str(got)[:200]}, wanted {str(want)[:200]}"]


def judge_list(what, part, a, dtype, fill):
    lens = pc.fill_null(pc.list_value_length(a), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return same(what + " lengths", np.diff(part.offsets), lens.tobytes()) + judge_elements(
        what, part, a.flatten(), dtype, fill
    )


def judge_elements(what, part, elems, dtype, fill):
    if dtype == "string":
        return same(what, part.texts(part.stroffsets), values(elems, dtype, fill=b""))
    return same(what, part.data, values(elems, dtype, fill=fill))


def judge_field(f, table, part):
    what, dtype, kind = f["source"], f["dtype"], f["kind"]
    if what in table.column_names:
        a = plain(table[what])
    else:
        parts = what.split(".")
        a = plain(table[parts[0]])
        for p in parts[1:]:
            a = plain(a.flatten()[[x.name for x in a.type].index(p)])
    n = len(a)
    valid = a.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    got_valid = part.valid if part.valid is not None else np.ones(n, np.uint8)
    bad = same(what + " validity", got_valid, valid.tobytes())
    nan = np.nan if dtype.startswith("float") else 0
    if kind == "scalar":
        if dtype == "string":
            want = values(a, dtype, fill=b"")
            return bad + same(what, part.texts(part.offsets), want)
        got = part.data.reshape(n, -1)[valid.astype(bool)] if n else part.data
        if n and part.data.reshape(n, -1)[~valid.astype(bool)].any():
            bad.append(f"{what}: a null row is not zero")
        return bad + same(what, got.tobytes(), values(a, dtype))
    if kind == "tensor" and pa.types.is_binary(a.type):
        want = b""
        for v in a.to_pylist():
            padded = np.full(f["shape"], 0 if v is None else np.nan, dtype)
            if v is not None:
                d = image(v)
                padded[tuple(slice(0, k) for k in d.shape)] = d
            want += padded.tobytes()
        return bad + same(what, part.data, want)
    if kind == "tensor":
        ok = a.drop_null()
        if n == 0:
            return bad + same(what, part.data, b"")
        while listy(ok.type):
            ok = plain(ok.flatten())
        row = part.data.reshape(n, -1)
        return bad + same(what, row[valid.astype(bool)].tobytes(), values(ok, dtype, fill=nan))
    if kind == "list":
        return bad + judge_list(what, part, a, dtype, nan)
    if pa.types.is_struct(a.type):  # of lists
        for m, p in zip(f["members"], part.members):
            c = plain(a.flatten()[[x.name for x in a.type].index(m["name"])])
            bad += judge_list(f"{what}.{m['name']}", p, c, m["dtype"], np.nan if m["dtype"].startswith("float") else 0)
        return bad
    lens = (
        pc.fill_null(pc.list_value_length(a), 0)
        if not pa.types.is_map(a.type)
        else pa.array([0 if v is None else len(v) for v in a.to_pylist()])
    )
    lens = lens.to_numpy(zero_copy_only=False).astype(np.int64).tobytes()
    if pa.types.is_map(a.type):
        leaves = members(pa.StructArray.from_arrays([plain(a.keys), plain(a.items)], ["key", "value"]))
    else:
        leaves = members(plain(a.flatten()))
    for m, p in zip(f["members"], part.members):
        bad += same(f"{what}.{m['name']} lengths", np.diff(p.offsets), lens)
        bad += judge_elements(
            f"{what}.{m['name']}", p, leaves[m["name"]], m["dtype"], np.nan if m["dtype"].startswith("float") else 0
        )
    left = {k for k, v in leaves.items() if not listy(v.type)} - {m["name"] for m in f["members"]}
    return bad + [f"{what}: member {k} is left out" for k in sorted(left)]


def leaf_paths(t, path):
    """The sources that cover a type, one for each column of text, numbers or lists."""
    if isinstance(t, pa.ExtensionType):
        t = t.storage_type
    if pa.types.is_struct(t):
        return [p for f in t for p in leaf_paths(f.type, f"{path}.{f.name}")]
    return [path]


def judge(dump):
    with open(dump) as f:
        doc = json.load(f)
    with open(os.path.splitext(dump)[0] + ".bin", "rb") as f:
        blob = f.read()
    table = pq.ParquetFile(doc["file"]).read()
    bad = []
    if doc["rows"] != table.num_rows:
        bad.append(f"{doc['rows']} rows, {table.num_rows} wanted")
    have = {f["source"] for f in doc["fields"]}
    for f in table.schema:
        for p in leaf_paths(f.type, f.name):
            if not any(p == h or p.startswith(h + ".") for h in have):
                bad.append(f"{p}: in no field")
    for f in doc["fields"]:
        if not f["err"]:
            bad += judge_field(f, table, Part(f["vector"], blob))
    return [f"{os.path.basename(doc['file'])}: {b}" for b in bad]


def main(args):
    if args[0] == "make":
        make(args[1])
        return 0
    bad = [b for dump in args[1:] for b in judge(dump)]
    print("\n".join(bad[:100]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
