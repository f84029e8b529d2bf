"""Write the golden HDF5 files of this folder and manifest.json (needs h5py, hdf5plugin and numpy; run from anywhere).

With `--codecs FOLDER` only files of every filter with every element type and option are written, there.

Each file is written twice, in the earliest and the latest format that the library knows. The manifest holds, for every
dataset and attribute, its shape and the CRC-32 of its canonical bytes as h5py reads them: elements row-major, packed,
little-endian, a variable-length one as its length (uint32) and its contents. `crc: null` marks what must be refused.
"""

import argparse
import ctypes
import json
import struct
import sys
import zlib
from pathlib import Path

import h5py
import numpy as np

HERE = Path(__file__).parent
sys.modules["make"] = sys.modules[__name__]  # which codecs imports
H5P, H5D, H5S, H5T = h5py.h5p, h5py.h5d, h5py.h5s, h5py.h5t
# The library inside h5py's wheel, for what h5py has no call for.
LIBRARY = ctypes.CDLL(str(next((Path(h5py.__file__).parent.parent / "h5py.libs").glob("libhdf5-*"))))


def library(call, plist, *args):
    """Call H5P<call>(plist, unsigned...)."""
    if getattr(LIBRARY, call)(ctypes.c_int64(plist.id), *(ctypes.c_uint(a) for a in args)) < 0:
        raise RuntimeError(call)


def canonical(values, dtype):
    """The canonical bytes of `values`, whose elements are of the h5py type `dtype`."""
    text = h5py.check_string_dtype(dtype)
    sequence = h5py.check_vlen_dtype(dtype)
    if text is not None and text.length is None:
        out = b""
        for value in np.ravel(values):
            raw = value.encode() if isinstance(value, str) else bytes(value or b"")
            out += struct.pack("<I", len(raw)) + raw
        return out
    if sequence is not None:
        out = b""
        for value in np.ravel(values):
            # h5py gives big-endian sequences as they stand in the file but labels them native.
            part = np.asarray(value)
            part = part.view(sequence) if sequence.byteorder == ">" else part.astype(sequence)
            out += struct.pack("<I", len(part)) + canonical(part, sequence)
        return out
    if dtype.names:
        return b"".join(canonical(row[n], dtype[n]) for row in np.ravel(values) for n in dtype.names)
    if dtype.subdtype:
        return canonical(values, dtype.subdtype[0])
    if dtype.kind in "SV":
        return np.asarray(values, dtype).tobytes()
    return np.ascontiguousarray(values).astype(dtype.newbyteorder("<")).tobytes()


def entry(shape, dtype, read):
    if shape is None:
        return {"shape": None, "crc": 0, "n": 0}
    if h5py.check_ref_dtype(dtype) is not None:
        return {"shape": list(shape), "crc": None}
    raw = canonical(read(), dtype)
    return {"shape": list(shape), "crc": zlib.crc32(raw), "n": len(raw)}


def describe(path, by_hand):
    """The manifest of a file; by_hand gives shape and canonical bytes of datasets that h5py cannot read."""
    out = {"datasets": {}, "attrs": {}}
    for name, (shape, raw) in (by_hand or {}).items():
        out["datasets"][name] = {"shape": shape, "crc": zlib.crc32(raw), "n": len(raw)}
    with h5py.File(path) as f:

        def visit(name, obj):
            if isinstance(obj, h5py.Datatype):
                return
            path = "/" + name
            if isinstance(obj, h5py.Dataset) and path not in out["datasets"]:
                out["datasets"][path] = entry(obj.shape, obj.dtype, lambda: obj[()])
            for key in obj.attrs:
                a = obj.attrs.get_id(key)
                out["attrs"][f"{path}@{key}"] = entry(
                    a.shape, a.dtype, lambda k=key, a=a: np.asarray(obj.attrs[k], a.dtype)
                )

        visit("", f)
        f.visititems(visit)
    return out


def create(path, version, small_nodes):
    """A new file; small nodes in chunk B-trees make several levels of few chunks (and superblock 1)."""
    access, plist = H5P.create(H5P.FILE_ACCESS), H5P.create(H5P.FILE_CREATE)
    bound = {"earliest": h5py.h5f.LIBVER_EARLIEST, "latest": h5py.h5f.LIBVER_LATEST}[version]
    access.set_libver_bounds(bound, h5py.h5f.LIBVER_LATEST)
    if small_nodes and version == "earliest":
        library("H5Pset_istore_k", plist, 4)
    return h5py.File(h5py.h5f.create(bytes(path), h5py.h5f.ACC_TRUNC, plist, access))


def low_level(f, name, shape, values, *, dtype=None, maxshape=None, **settings):
    """A dataset with creation properties that h5py's high-level interface does not offer."""
    plist = H5P.create(H5P.DATASET_CREATE)
    for setting, args in settings.items():
        getattr(plist, setting)(*args)
    space = H5S.create_simple(shape, maxshape or shape)
    dataset = H5D.create(f.id, name.encode(), dtype or H5T.py_create(values.dtype), space, plist)
    if values is not None:
        dataset.write(H5S.ALL, H5S.ALL, np.ascontiguousarray(values))
    return dataset


def types(f):
    rng = np.random.default_rng(1)
    n = 21
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        info = np.iinfo(kind)
        v = rng.integers(info.min, info.max, n, dtype=kind, endpoint=True)
        f.create_dataset(kind, data=v)
        f.create_dataset(kind + "_big", data=v.astype(">" + kind), chunks=(8,), shuffle=True, compression="gzip")
    for kind in ("f2", "f4", "f8"):
        v = np.concatenate([rng.normal(size=n - 5), [np.nan, np.inf, -np.inf, -0.0, 6e-8]]).astype(kind)
        f.create_dataset(kind, data=v)
        f.create_dataset(kind + "_big", data=v.astype(">" + kind))
        f.attrs[kind] = v.astype(">" + kind)
    odd = H5T.STD_I32LE.copy()
    odd.set_precision(24)
    odd.set_size(3)
    wide = rng.integers(-(2**23), 2**23, n, dtype="i4")
    low_level(f, "i3", (n,), wide, dtype=odd)
    by_hand = {
        "/i3": ([n], wide.view("u1").reshape(n, 4)[:, :3].tobytes()),
        "/space_text": ([2], b"ab     c    "),  # h5py turns the padding into NULs
    }
    f.create_dataset("bool", data=rng.integers(0, 2, (3, 7)).astype(bool))
    f.create_dataset("enum", data=np.arange(n) % 3, dtype=h5py.enum_dtype({"STAR": 0, "GALAXY": 1, "QSO": 2}, "i4"))
    f.create_dataset("enum_big", data=np.arange(n) % 3 - 1, dtype=h5py.enum_dtype({"A": -1, "B": 0, "C": 1}, ">i2"))
    for kind in ("c8", "c16"):
        v = (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(kind)
        f.create_dataset(kind, data=v)
        f.create_dataset(kind + "_big", data=v.astype(">" + kind))
    f.create_dataset("scalar", data=3.25)
    f.create_dataset("scalar_text", data="naïve")
    f.create_dataset("null", data=h5py.Empty("f4"))
    f.create_dataset("no_rows", shape=(0, 3), maxshape=(None, 3), dtype="f4", chunks=(2, 3))
    f.create_dataset("fixed_text", data=np.array([b"g", b"des-r", b""], "S5"))
    f.create_dataset("fixed_utf8", data=np.array(["é".encode(), b"ab"], h5py.string_dtype("utf-8", 6)))
    spaces = H5T.C_S1.copy()
    spaces.set_size(6)
    spaces.set_strpad(H5T.STR_SPACEPAD)
    low_level(f, "space_text", (2,), np.array([b"ab    ", b" c    "], "S6"), dtype=spaces)
    f.create_dataset("text", data=["", "α", "a longer text " * 9], dtype=h5py.string_dtype())
    f.create_dataset(
        "text_chunked",
        data=[f"id-{i**3}" for i in range(40)],
        dtype=h5py.string_dtype(),
        chunks=(7,),
        compression="gzip",
    )
    ragged = f.create_dataset("ragged", (6,), h5py.vlen_dtype("f4"))
    ragged_big = f.create_dataset("ragged_big", (6,), h5py.vlen_dtype(np.dtype(">i2")), chunks=(4,))
    for i in range(6):
        ragged[i] = np.arange(i * i, dtype="f4") / 3
        ragged_big[i] = np.arange(i, dtype="i2") - 2
    row = np.dtype(
        [
            ("id", "<i8"),
            ("name", "S4"),
            ("mag", ">f4", (2, 2)),
            ("flag", "?"),
            ("sub", [("a", "u1"), ("b", ">f8")]),
            ("subs", [("x", ">i2"), ("y", "u1")], (3,)),
        ]
    )
    rows = np.zeros(n, row)
    rows["id"], rows["name"], rows["mag"] = np.arange(n), b"ab", rng.normal(size=(n, 2, 2))
    rows["flag"], rows["sub"]["a"], rows["sub"]["b"] = np.arange(n) % 2, np.arange(n), rng.normal(size=n)
    rows["subs"]["x"], rows["subs"]["y"] = rng.integers(-9, 9, (n, 3)), 7
    f.create_dataset("compound", data=rows, chunks=(5,), shuffle=True, compression="gzip")
    padded = np.dtype({"names": ["a", "b"], "formats": ["u1", "<f8"], "offsets": [3, 8], "itemsize": 24})
    v = np.zeros(5, padded)
    v["a"], v["b"] = np.arange(5), np.arange(5) / 7
    f.create_dataset("padded", data=v)
    v = np.zeros(4, [("k", ">i4"), ("s", h5py.string_dtype())])
    v["k"], v["s"] = np.arange(4), ["v" * i for i in range(4)]
    f.create_dataset("compound_text", data=v)
    f.create_dataset("opaque", data=np.array([b"abcd", b"efgh"], "V4"))
    low_level(f, "bits", (4,), np.array([1, 128, 255, 7], "u1"), dtype=H5T.STD_B8LE)
    low_level(f, "compact", (9,), np.arange(9, dtype=">i2"), set_layout=(H5D.COMPACT,))
    low_level(f, "compact_scalar", (), np.float64(7.5), set_layout=(H5D.COMPACT,))
    f["committed"] = np.dtype(">f8")
    f.create_dataset("of_committed", data=np.arange(4.0), dtype=f["committed"])
    f["of_committed"].attrs.create("shared", np.arange(2.0), dtype=f["committed"])
    refs = f.create_dataset("refs", (2,), h5py.ref_dtype)
    refs[0] = f["i4"].ref
    return by_hand


def groups(f):
    f.attrs["survey"], f.attrs["count"], f.attrs["neg"], f.attrs["flag"] = "legacy", np.uint16(7), np.int64(-3), True
    f.attrs["names"], f.attrs["fixed"], f.attrs["none"] = ["α", "bb", ""], np.bytes_("fix"), h5py.Empty("f4")
    f.attrs["matrix"] = np.arange(6, dtype=">i4").reshape(2, 3)
    f.attrs["z"] = np.complex64(1 - 2j)
    f.attrs["row"] = np.array([(1, 2.5)], [("a", ">i4"), ("b", "f8")])
    deep = f
    for i in range(5):
        deep = deep.create_group(f"level{i}")
        deep.attrs["level"] = i
        deep.create_dataset("d", data=np.arange(i + 1))
    many = f.create_group("many")
    for i in range(160):
        many[f"link_{i:04d}_{'x' * (i % 40)}"] = h5py.SoftLink(f"/level{i % 2}/d")
    for i in range(30):
        many.create_dataset(f"d{i}", data=np.int16(i))
    ordered = f.create_group("ordered", track_order=True)
    for i in (5, 1, 3, 2, 9, 8, 7, 6, 4, 0, 11, 10):
        ordered.create_dataset(f"z{i}", data=np.arange(i))
        ordered.attrs[f"a{i}"] = i
    full = f.create_dataset("full", data=1)
    for i in range(50):
        full.attrs[f"a{i:02d}"] = np.arange(i, dtype="f4") if i % 2 else f"value {i}"
    f.create_group("noted").attrs["note"] = "x" * 900
    f.create_group("empty")
    f.create_group("ñ").create_dataset("ß", data=[1, 2])
    f["soft"] = h5py.SoftLink("/level0/d")
    f["level0/relative"] = h5py.SoftLink("level1/level2")
    f["chain"] = h5py.SoftLink("/level0/relative/d")
    f["dangling"] = h5py.SoftLink("/nowhere")
    f["circle_a"], f["circle_b"] = h5py.SoftLink("/circle_b"), h5py.SoftLink("/circle_a")
    f["external"] = h5py.ExternalLink("elsewhere.h5", "/x")
    f["hard"] = f["level0/d"]
    f["level0/up"] = f["level0"]


def chunks(f):
    gz = {"compression": "gzip"}
    for suffix, kw in (("", {}), ("_gz", gz)):
        f.create_dataset("single" + suffix, data=np.arange(50, dtype="i4"), chunks=(50,), **kw)
        f.create_dataset("fixed" + suffix, data=np.arange(95, dtype=">i2"), chunks=(10,), **kw)
        f.create_dataset("extensible" + suffix, data=np.arange(333, dtype="i2"), chunks=(4,), maxshape=(None,), **kw)
        f.create_dataset(
            "axis1" + suffix,
            data=np.arange(20 * 33, dtype="f4").reshape(20, 33),
            chunks=(7, 9),
            maxshape=(20, None),
            **kw,
        )
        f.create_dataset(
            "tree" + suffix,
            data=np.arange(40 * 13, dtype="i2").reshape(40, 13),
            chunks=(3, 2),
            maxshape=(None, None),
            **kw,
        )
        f.create_dataset(
            "cube" + suffix,
            data=np.arange(6 * 4 * 5 * 5, dtype="f4").reshape(6, 4, 5, 5),
            chunks=(4, 1, 3, 5),
            maxshape=(None, 4, 5, 5),
            **kw,
        )
        sparse = f.create_dataset("fixed_paged" + suffix, shape=(1100,), chunks=(1,), dtype="i1", fillvalue=-3, **kw)
        sparse[[2, 1023, 1024, 1099]] = [1, 2, 3, 4]
        sparse = f.create_dataset(
            "extensible_sparse" + suffix, shape=(140000,), maxshape=(None,), chunks=(1,), dtype="i1", fillvalue=5, **kw
        )
        for i in (1, 7, 500, 135000):
            sparse[i] = 9
    low_level(
        f,
        "implicit",
        (10, 7),
        np.arange(70, dtype="f4").reshape(10, 7),
        maxshape=(16, 9),
        set_chunk=((4, 3),),
        set_alloc_time=(H5D.ALLOC_TIME_EARLY,),
    )
    v = np.arange(20 * 33, dtype="f4").reshape(20, 33)
    plist = H5P.create(H5P.DATASET_CREATE)
    plist.set_chunk((7, 9))
    plist.set_deflate(4)
    library("H5Pset_chunk_opts", plist, 2)  # chunks over the edge stay unfiltered
    edges = H5D.create(f.id, b"plain_edges", H5T.IEEE_F32LE, H5S.create_simple(v.shape), plist)
    edges.write(H5S.ALL, H5S.ALL, v)
    f.create_dataset("never_written", shape=(9, 7), chunks=(4, 3), dtype=">f4", fillvalue=-99.5)
    f.create_dataset("never_written_plain", shape=(9,), dtype="f8", fillvalue=1.5)
    d = f.create_dataset("half_written", shape=(20, 7), chunks=(8, 3), dtype="i4", fillvalue=7, **gz)
    d[0:8, 0:3], d[19, 6] = 1, 3
    d = f.create_dataset("grown", shape=(5, 8), maxshape=(None, 8), chunks=(4, 3), dtype="i4", fillvalue=-1, **gz)
    d[:] = 5
    d.resize((13, 8))
    d[12] = 9
    d = f.create_dataset("shrunk", shape=(40, 8), maxshape=(None, 8), chunks=(4, 3), dtype="i4", **gz)
    d[:] = np.arange(320).reshape(40, 8)
    d.resize((13, 8))


def filters(f):
    rng = np.random.default_rng(2)
    image = (np.exp(-(np.mgrid[-8:8, -8:8] ** 2).sum(0) / 30) + rng.normal(0, 0.02, (4, 16, 16))).astype("f4")
    shape = (3, 12, 16)
    for name, kw in {
        "gzip": {"compression": "gzip", "compression_opts": 9},
        "gzip_0": {"compression": "gzip", "compression_opts": 0},
        "gzip_all": {"compression": "gzip", "shuffle": True, "fletcher32": True},
        "shuffle": {"shuffle": True},
        "fletcher": {"fletcher32": True},
        "lzf": {"compression": "lzf"},
        "lzf_all": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    }.items():
        f.create_dataset(name, data=image, chunks=shape, **kw)
    f.create_dataset(
        "noise_lzf", data=np.frombuffer(rng.bytes(4 * 160), "f4").reshape(2, 80), chunks=(1, 80), compression="lzf"
    )
    for kind in ("i1", "i2", "f8", "S12", "S3"):
        v = np.frombuffer(rng.integers(0, 4, 120 * np.dtype(kind).itemsize, "u1").tobytes(), kind)
        f.create_dataset("shuffle_" + kind, data=v, chunks=(50,), shuffle=True, compression="gzip", fletcher32=True)
    f.create_dataset("fletcher_odd", data=np.arange(33, dtype="u1"), chunks=(11,), fletcher32=True)
    # Chunk by chunk: all filters, the first skipped, the second skipped, both skipped.
    d = low_level(f, "masks", (8,), None, dtype=H5T.STD_I32LE, set_chunk=((2,),), set_shuffle=(), set_deflate=(4,))
    for i in range(4):
        raw = np.array([i, -i], "<i4")
        if not i & 1:
            raw = np.frombuffer(raw.tobytes(), "u1").reshape(2, 4).T.copy()
        raw = raw.tobytes() if i & 2 else zlib.compress(raw.tobytes())
        d.write_direct_chunk((2 * i,), raw, filter_mask=i)


def refused(f):
    import hdf5plugin

    low_level(f, "external_storage", (4,), None, dtype=H5T.STD_I8LE, set_external=(b"elsewhere.bin", 0, 4))
    layout = h5py.VirtualLayout((4,), "i4")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", (4,))
    f.create_virtual_dataset("virtual", layout, fillvalue=1)
    target = f.create_dataset("group/target", data=np.arange(10))
    objects = f.create_dataset("objects", (2,), h5py.ref_dtype)
    objects[0] = target.ref
    regions = f.create_dataset("regions", (2,), h5py.regionref_dtype, chunks=(2,))
    regions[0] = target.regionref[2:5]
    f.create_dataset("nowhere", (2,), h5py.ref_dtype)
    f.create_dataset("row_of_references", (2,), [("id", "i4"), ("to", h5py.ref_dtype)])
    f.create_dataset("lists_of_references", (2,), h5py.vlen_dtype(h5py.ref_dtype))
    from codecs_set import narrow_float

    row = H5T.create(H5T.COMPOUND, 2)
    row.insert(b"x", 0, narrow_float("BE", 2, 8, 7))
    low_level(f, "row_of_bfloat16", (4,), np.zeros(4, [("x", "f4")]), dtype=row)
    low_level(f, "float8", (4,), np.arange(4, dtype="f4"), dtype=narrow_float("LE", 1, 4, 3))
    f.create_dataset("long_double", data=np.arange(3, dtype=np.longdouble))
    low_level(f, "time", (3,), None, dtype=H5T.UNIX_D32LE)
    f.create_dataset("blosc2", data=np.arange(90.0), chunks=(30,), **hdf5plugin.Blosc2())
    f.create_dataset("zfp", data=np.arange(90.0), chunks=(30,), **hdf5plugin.Zfp(rate=8))
    f["external_link"] = h5py.ExternalLink("elsewhere.h5", "/x")


def native_complex(f):
    """Complex numbers as a class of their own, which h5py reads but does not write."""
    by_hand = {}
    LIBRARY.H5Tcomplex_create.restype = ctypes.c_int64
    for name, base, kind in (("c8", H5T.IEEE_F32LE, "<c8"), ("c16_big", H5T.IEEE_F64BE, ">c16")):
        dtype = H5T.TypeID(LIBRARY.H5Tcomplex_create(ctypes.c_int64(base.id)))
        v = (np.arange(7) - 1j * np.arange(7) / 3).astype(kind)
        plist = H5P.create(H5P.DATASET_CREATE)
        plist.set_chunk((3,))
        plist.set_shuffle()
        plist.set_deflate(4)
        d = H5D.create(f.id, name.encode(), dtype, H5S.create_simple(v.shape), plist)
        if (
            LIBRARY.H5Dwrite(*(ctypes.c_int64(x) for x in (d.id, dtype.id, 0, 0, 0)), v.ctypes.data_as(ctypes.c_void_p))
            < 0
        ):
            raise RuntimeError("H5Dwrite")
        by_hand["/" + name] = ([7], v.astype(v.dtype.newbyteorder("<")).tobytes())
    return by_hand


def shared_messages(path, indexes, cutoff):
    """A file that keeps messages of each kind in heaps of shared messages: by heap the kinds, 1 << message type."""
    plist, access = H5P.create(H5P.FILE_CREATE), H5P.create(H5P.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_LATEST, h5py.h5f.LIBVER_LATEST)
    library("H5Pset_shared_mesg_nindexes", plist, len(indexes))
    for i, kinds in enumerate(indexes):
        library("H5Pset_shared_mesg_index", plist, i, kinds, 8)
    library("H5Pset_shared_mesg_phase_change", plist, cutoff, max(0, cutoff - 5))
    row = np.dtype([("x", "f4"), ("y", ">f8")])
    with h5py.File(h5py.h5f.create(bytes(path), h5py.h5f.ACC_TRUNC, plist, access)) as f:
        for i in range(12):
            d = f.create_dataset(
                f"row{i}", data=np.full((5, 4), np.array((i, 2.5), row)), chunks=(2, 4), compression="gzip"
            )
            d.attrs["unit"], d.attrs["row"] = "a unit of some length", np.full(3, np.array((1, i % 2), row))
        f.create_dataset("filled", (6, 3), ">i8", chunks=(2, 3), fillvalue=-77, shuffle=True, compression="gzip")
        for i in range(20):  # dense ones
            f["filled"].attrs[f"attribute{i}"] = "a text of many attributes"


def filtered_heap(path):
    """Groups whose links are in compressed fractal heaps."""
    plist = H5P.create(H5P.GROUP_CREATE)
    library("H5Pset_deflate", plist, 6)
    with h5py.File(path, "w", libver="latest") as f:
        target = f.create_dataset("target", data=np.arange(3))
        for name, count in (("packed", 20), ("wide", 900)):
            group = h5py.Group(h5py.h5g.create(f.id, name.encode(), gcpl=plist))
            for i in range(count):
                group[f"a link with a name that is long, number {i}"] = h5py.SoftLink(f"/target{i % 2}")
            group["last"] = target
            group["huge" + "x" * 5000] = target


def all_codecs(folder):
    from codecs_set import codecs

    manifest = {}
    for version in ("earliest", "latest"):
        path = folder / f"codecs_{version}.h5"
        with create(path, version, small_nodes=True) as f:
            codecs(f, full=True, large=version == "latest")
        manifest[path.name] = describe(path, None)
    write_manifest(folder, manifest)


def write_manifest(folder, manifest):
    with open(folder / "manifest.json", "w") as out:
        json.dump(manifest, out, indent=0, sort_keys=True)
        out.write("\n")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--codecs", type=Path, metavar="FOLDER")
    folder = p.parse_args().codecs
    if folder:
        all_codecs(folder)
        return
    from codecs_set import codecs

    manifest = {}
    for version in ("earliest", "latest"):
        for fill in (types, groups, chunks, filters, codecs):
            path = HERE / f"{fill.__name__}_{version}.h5"
            with create(path, version, small_nodes=fill in (chunks, filters, codecs)) as f:
                by_hand = fill(f)
            manifest[path.name] = describe(path, by_hand)
        with h5py.File(HERE / f"refused_{version}.h5", "w", libver=(version, "latest")) as f:
            refused(f)
    path = HERE / "complex_latest.h5"
    with create(path, "latest", small_nodes=False) as f:
        by_hand = native_complex(f)
    manifest[path.name] = describe(path, by_hand)
    path = HERE / "userblock.h5"
    with h5py.File(path, "w", libver=("v108", "v108"), userblock_size=1024) as f:
        f.create_dataset("x", data=np.arange(10.0))
        f.create_dataset("y", data=np.arange(90.0), chunks=(20,), compression="gzip")
    manifest[path.name] = describe(path, None)
    for name, indexes, cutoff in (("shared_one", [0x182A], 50), ("shared_several", [0xA, 0x820, 0x1000], 4)):
        path = HERE / f"{name}.h5"
        shared_messages(path, indexes, cutoff)
        manifest[path.name] = describe(path, None)
    path = HERE / "heap_filtered.h5"
    filtered_heap(path)
    manifest[path.name] = describe(path, None)
    write_manifest(HERE, manifest)


if __name__ == "__main__":
    main()
