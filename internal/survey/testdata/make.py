"""Writes the HDF5 fixtures of this folder with h5py, in the schemas of published surveys, and expected.json beside them.

    python make.py

Each case names its files, what Inspect should find, and for each column the SHA-256 of its little-endian bytes, computed
here from what h5py reads: values; for text, lists and structs also the lengths as int64. Needs h5py and numpy.
"""

import hashlib
import json
import os
import shutil

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20)
CASES = {}


def sha(*parts):
    h = hashlib.sha256()
    for p in parts:
        h.update(p if isinstance(p, bytes) else np.ascontiguousarray(p).tobytes())
    return h.hexdigest()


def le(a):
    a = np.asarray(a)
    return np.ascontiguousarray(a.astype(a.dtype.newbyteorder("<"), copy=False))


def fixed(a):
    return sha(le(a))


def raw(x):
    return x if isinstance(x, bytes) else str(x).encode()


def texts(list_):
    b = [raw(x) for x in list_]
    return sha(b"".join(b), np.array([len(x) for x in b], "<i8"))


def lists(rows):
    """Rows of numbers: values, then lengths."""
    return sha(*[le(r) for r in rows], np.array([len(r) for r in rows], "<i8"))


def text_lists(rows):
    flat = [raw(x) for r in rows for x in r]
    return sha(b"".join(flat), np.array([len(x) for x in flat], "<i8"), np.array([len(r) for r in rows], "<i8"))


def path(name):
    p = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(p), exist_ok=True)
    return p


def open_(name, **kw):
    return h5py.File(path(name), "w", **kw)


def case(name, sources, family, rows, columns, **more):
    CASES[name] = dict(sources=sources, family=family, rows=rows, columns=columns, **more)


def positions(n):
    return rng.uniform(0, 360, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))


def legacysurvey():
    """Columnar, LZF, chunks guessed by h5py, resizable axis 0."""
    n, b, s, k = 11, 4, 10, 20
    d = {}
    ra, dec = positions(n)
    d["object_id"] = np.array([f"{10995116277760 + i * 7}" for i in range(n)], "S16")
    d["ra"], d["dec"] = ra, dec
    d["healpix"] = np.full(n, 1711, "i8")
    d["image_array"] = rng.normal(size=(n, b, s, s)).astype("f4")
    d["image_ivar"] = rng.gamma(2, size=(n, b, s, s)).astype("f4")
    d["image_mask"] = rng.random((n, b, s, s)) < 0.1
    d["image_rgb"] = rng.integers(0, 256, (n, s, s, 3), dtype="u1")
    d["blobmodel"] = rng.integers(0, 256, (n, s, s, 3), dtype="u1")
    d["object_mask"] = rng.integers(0, 13, (n, s, s), dtype="u1")
    d["image_psf_fwhm"] = rng.uniform(0.9, 1.4, (n, b)).astype("f4")
    d["image_scale"] = np.full((n, b), 0.262, "f4")
    bands = [["des-g", "des-r", "des-i", "des-z"]] * n
    for c in ["FLUX_G", "X"]:
        d[f"catalog_{c}"] = rng.normal(size=(n, k)).astype("f4")
    d["catalog_TYPE"] = rng.integers(0, 6, (n, k), dtype="i4")
    d["EBV"] = rng.uniform(0, 1, n).astype("f4")
    d["z_spec"] = np.where(np.arange(n) % 3 == 0, -99, rng.uniform(0, 1, n)).astype("f4")
    with open_("legacysurvey/healpix=1711/001-of-001.hdf5") as f:
        for key, v in d.items():
            f.create_dataset(key, data=v, chunks=True, maxshape=(None, *v.shape[1:]), compression="lzf")
        f.create_dataset(
            "image_band",
            data=np.array(bands, dtype=h5py.string_dtype("utf-8", 5)),
            chunks=True,
            maxshape=(None, b),
            compression="lzf",
        )
        f["image_array"].attrs["units"] = "nanomaggy"
        f["ra"].attrs["unit"] = np.bytes_("deg")
    cols = {key: fixed(v) for key, v in d.items() if key != "object_id"}
    cols["object_id"] = texts(d["object_id"])
    cols["image_band"] = text_lists(bands)
    case(
        "legacysurvey",
        ["legacysurvey"],
        "columnar",
        n,
        cols,
        id="object_id",
        units={"image_array": "nanomaggy", "ra": "deg"},
        shapes={"image_array": [b, s, s], "image_mask": [b, s, s], "catalog_FLUX_G": [k], "blobmodel": [s, s, 3]},
        warnings=["constant:healpix", "sentinel:z_spec", "constant:image_scale", "position:ra"],
    )


def desi():
    """Columnar, contiguous; two files; one wavelength grid in every row."""
    sizes, length = [5, 4], 61
    n = sum(sizes)
    ra, dec = positions(n)
    d = {
        "object_id": np.arange(n, dtype="i8") * 39627 + 2305843009213693952,
        "ra": ra,
        "dec": dec,
        "healpix": np.arange(n, dtype="i8"),
        "spectrum_flux": rng.normal(size=(n, length)).astype("f4"),
        "spectrum_ivar": rng.gamma(1, size=(n, length)).astype("f4"),
        "spectrum_lsf_sigma": rng.uniform(0.5, 2, (n, length)).astype("f4"),
        "spectrum_lambda": np.repeat(np.linspace(3600, 9824, length, dtype="f4")[None], n, 0),
        "spectrum_mask": rng.random((n, length)) < 0.05,
        "Z": rng.uniform(0, 4, n),
        "ZWARN": rng.random(n) < 0.2,
        "EBV": rng.uniform(0, 1, n).astype("f4"),
    }
    at = 0
    for i, size in enumerate(sizes):
        with open_(f"desi/healpix={100 + i}/001-of-001.hdf5") as f:
            for key, v in d.items():
                f.create_dataset(key, data=v[at : at + size])
        at += size
    case(
        "desi",
        ["desi"],
        "columnar",
        n,
        {k: fixed(v) for k, v in d.items()},
        id="object_id",
        warnings=["constant:spectrum_lambda"],
        shapes={"spectrum_flux": [length], "spectrum_mask": [length]},
    )


def manga():
    """One group an object, scalars repeated as attributes, compound datasets; spectra of fixed shape."""
    ids = ["8485-1901", "10001-12701", "7443-3702"]
    n, k, length, s, m = len(ids), 6, 9, 5, 3
    spaxel = np.dtype(
        [
            ("flux", "<f4", (length,)),
            ("ivar", "<f4", (length,)),
            ("mask", "<i8", (length,)),
            ("x", "<i4"),
            ("y", "<i4"),
            ("units", "S12"),
        ]
    )
    image = np.dtype([("filter", "S4"), ("flux", "<f4", (s, s)), ("psf_fwhm", "<f4")])
    map_ = np.dtype([("group", h5py.string_dtype()), ("label", "S8"), ("flux", ">f8", (s, s))])
    ra, dec = positions(n)
    rows = []
    with open_("manga/healpix=44/0001-of-0001.hdf5") as f:
        f.attrs["project"] = "SDSS"
        f.attrs["survey"] = "MaNGA"
        for i in range(n):
            g = f.create_group(ids[i])
            sc = {
                "object_id": ids[i],
                "ra": ra[i],
                "dec": dec[i],
                "healpix": np.int64(44),
                "z": np.float32(0.01 * (i + 1)),
                "spaxel_size": np.float32(0.5),
            }
            for key, v in sc.items():
                g.attrs[key] = v
                g.create_dataset(key, data=v)
            g.attrs["drp_version"] = "v3_1_1"
            sp = np.zeros(k, spaxel)
            sp["flux"], sp["ivar"] = rng.normal(size=(k, length)), rng.gamma(1, size=(k, length))
            sp["mask"], sp["x"], sp["y"], sp["units"] = (
                rng.integers(0, 9, (k, length)),
                np.arange(k),
                np.arange(k)[::-1],
                b"1e-17 erg",
            )
            im = np.zeros(4, image)
            im["filter"], im["flux"], im["psf_fwhm"] = (
                [b"g", b"r", b"i", b"z"],
                rng.normal(size=(4, s, s)),
                rng.uniform(1, 2, 4),
            )
            mp = np.zeros(m, map_)
            mp["group"], mp["label"], mp["flux"] = (
                ["spx", "emline", "stellar"][:m],
                [b"a", b"b", b"c"],
                rng.normal(size=(m, s, s)),
            )
            g.create_dataset("spaxels", data=sp, compression="gzip", chunks=(2,))
            g.create_dataset("images", data=im)
            g.create_dataset("maps", data=mp)
            rows.append((ids[i], sc, sp, im, mp))
    rows.sort(key=lambda r: r[0])
    cols = {key: fixed([r[1][key] for r in rows]) for key in ["ra", "dec", "healpix", "z", "spaxel_size"]}
    cols["object_id"] = texts([r[0] for r in rows])
    cols["drp_version"] = texts(["v3_1_1"] * n)
    for key in ["flux", "ivar", "mask", "x", "y"]:
        cols[f"spaxels_{key}"] = fixed(np.stack([r[2][key] for r in rows]))
    cols["spaxels_units"] = text_lists([r[2]["units"] for r in rows])
    cols["images_filter"] = text_lists([r[3]["filter"] for r in rows])
    cols["images_flux"] = fixed(np.stack([r[3]["flux"] for r in rows]))
    cols["images_psf_fwhm"] = fixed(np.stack([r[3]["psf_fwhm"] for r in rows]))
    cols["maps_group"] = text_lists([r[4]["group"] for r in rows])
    cols["maps_label"] = text_lists([r[4]["label"] for r in rows])
    cols["maps_flux"] = fixed(np.stack([r[4]["flux"] for r in rows]))
    case(
        "manga",
        ["manga"],
        "group",
        n,
        cols,
        id="object_id",
        warnings=["attributes:"],
        shapes={"spaxels_flux": [k, length], "images_flux": [4, s, s], "spaxels_x": [k]},
    )


def groups_ragged():
    """Groups whose compound differs in length, and whose id is the group's name."""
    peak = np.dtype([("lambda", "<f8"), ("ew", "<f4"), ("line", "S6")])
    sizes = [3, 0, 5]
    ra, dec = positions(3)
    p, v = [], []
    with open_("groups_ragged/a.h5", libver="latest") as f:
        for i, k in enumerate(sizes):
            g = f.create_group(f"obj{i}")
            g.attrs["ra"], g.attrs["dec"] = ra[i], dec[i]
            if i != 1:
                g.attrs["z"] = np.float32(i)
            x = np.zeros(k, peak)
            x["lambda"], x["ew"], x["line"] = (
                rng.uniform(4000, 9000, k),
                rng.normal(size=k),
                [b"Ha", b"Hb", b"OIII", b"NII", b"SII"][:k],
            )
            g.create_dataset("peaks", data=x)
            v.append(rng.normal(size=k + 1))
            g.create_dataset("samples", data=v[-1])
            p.append(x)
    cols = {
        "object_id": texts(["obj0", "obj1", "obj2"]),
        "ra": fixed(ra),
        "dec": fixed(dec),
        "samples": lists(v),
        "peaks": {
            "lambda": lists([x["lambda"] for x in p]),
            "ew": lists([x["ew"] for x in p]),
            "line": text_lists([x["line"] for x in p]),
        },
        "z": sha(np.array([0, 0, 2], "<f4"), bytes([1, 0, 1])),
    }
    case(
        "groups_ragged",
        ["groups_ragged"],
        "group",
        3,
        cols,
        id="object_id",
        nullable=["z"],
        warnings=["nullable:z", "ragged:samples"],
    )


def light_curve(time, members, bands):
    keep = []
    for b in range(time.shape[0]):
        real = np.nonzero((time[b] != 0) & (time[b] != -99))[0]
        keep.append(real[-1] + 1 if len(real) else 0)
    out = {"band": [bands[b] for b in range(len(keep)) for _ in range(keep[b])]}
    for name, v in [("time", time), *members.items()]:
        out[name] = np.concatenate([v[b, : keep[b]] for b in range(len(keep))])
    return out


def one_object(name, pad, joined, names):
    """One object a file; bands x epochs padded with pad; bands as an array or as one text."""
    curves, ids, ras, decs, zs, all_bands = [], [], [], [], [], []
    for i, obj in enumerate(["PSc000001", "PSc000002", "PSc000010"]):
        nb, length = (5, 8) if joined else (3 + i, 6 + i)
        bands = ["g", "r", "i", "z", "y"][:nb]
        time = np.full((nb, length), pad, "f4")
        mem = {m: np.zeros((nb, length), "f4") for m in names}
        for b in range(nb):
            k = int(rng.integers(0, length + 1))
            time[b, :k] = np.sort(rng.uniform(55000, 55100, k))
            if k > 2:
                time[b, 0] = 0  # a real epoch that looks like padding, and is not the last
            for m in names:
                mem[m][b, :k] = rng.normal(size=k)
                if pad:
                    mem[m][b, k:] = pad
        ra, dec = positions(1)
        with open_(f"{name}/healpix=0{500 + i}/example_{obj}.hdf5") as f:
            f.create_dataset("object_id", data=np.bytes_(obj))
            f.create_dataset("ra", data=ra[0])
            f.create_dataset("dec", data=dec[0])
            z = np.int64(0) if i == 0 else np.float32(0.125 * i)
            f.create_dataset("redshift", data=z)
            if joined:
                f.create_dataset("bands", data=np.bytes_(",".join(bands)))
            else:
                f.create_dataset("bands", data=np.array(bands, "S2"))
            f.create_dataset("time", data=time)
            for m in names:
                f.create_dataset(m, data=mem[m])
        curves.append(light_curve(time, mem, bands))
        ids.append(obj), ras.append(ra[0]), decs.append(dec[0]), zs.append(float(z)), all_bands.append(bands)
    lc = {m: lists([c[m] for c in curves]) for m in ["time", *names]}
    lc["band"] = text_lists([c["band"] for c in curves])
    case(
        name,
        [name],
        "object",
        3,
        {
            "object_id": texts(ids),
            "ra": fixed(ras),
            "dec": fixed(decs),
            "redshift": fixed(np.array(zs, "f8")),
            "bands": text_lists(all_bands),
            "lightcurve": lc,
        },
        id="object_id",
        warnings=["dtype:redshift"],
    )


def plasticc():
    """Columnar light curves, float64, padded to one length; a published split in the names of files."""
    parts = {"train_001-of-001": 4, "test_001-of-002": 3, "test_002-of-002": 2}
    n = sum(parts.values())
    ra, dec = positions(n)
    d = {
        "object_id": np.arange(n).astype("S4"),
        "ra": ra,
        "dec": dec,
        "lightcurve": rng.normal(size=(n, 6, 3, 7)),
        "obj_type": np.array(["SNIa", "RRL"] * n, "S8")[:n],
        "redshift": rng.uniform(0, 1, n),
    }
    split = []
    order = {}
    at = 0
    for name, k in parts.items():
        order[name] = range(at, at + k)
        with open_(f"plasticc/data/healpix=7/{name}.hdf5") as f:
            for key, v in d.items():
                f.create_dataset(
                    key,
                    data=v[at : at + k],
                    chunks=True,
                    maxshape=(None, *v.shape[1:]),
                    compression="gzip",
                    shuffle=True,
                )
        at += k
    rows = [i for name in sorted(parts) for i in order[name]]
    split = [name.split("_")[0] for name in sorted(parts) for _ in order[name]]
    cols = {k: fixed(v[rows]) for k, v in d.items() if k not in ("object_id", "obj_type")}
    cols["object_id"], cols["obj_type"], cols["split"] = (
        texts(d["object_id"][rows]),
        texts(d["obj_type"][rows]),
        texts(split),
    )
    case("plasticc", ["plasticc"], "columnar", n, cols, id="object_id", shapes={"lightcurve": [6, 3, 7]})


def vlen():
    """Columnar, with light curves and other lists of varying length."""
    n = 6
    ra, dec = positions(n)
    sizes = [3, 0, 5, 2, 1, 4]
    t = [np.sort(rng.uniform(0, 9, k)) for k in sizes]
    fl = [rng.normal(size=k).astype("f4") for k in sizes]
    q = [rng.integers(-9, 9, k).astype("i2") for k in sizes]
    other = [rng.normal(size=k + 1).astype("f4") for k in sizes]
    with open_("vlen/a.hdf5") as f:
        f["object_id"] = np.arange(n, dtype="u4")
        f["ra"], f["dec"] = ra, dec
        for name, rows, dt in [
            ("time", t, "<f8"),
            ("flux", fl, "<f4"),
            ("quality", q, ">i2"),
            ("harmonics", other, "<f4"),
        ]:
            d = f.create_dataset(name, (n,), dtype=h5py.vlen_dtype(np.dtype(dt)))
            for i, r in enumerate(rows):
                d[i] = r
        f.create_dataset("name", data=["η Cen", "", "b", "c ", "d", "e"], dtype=h5py.string_dtype())
    # Not read back: h5py labels big-endian elements of varying length as native without swapping them. The file is right.
    lc = {"time": lists(t), "flux": lists(fl), "quality": lists(q)}
    case(
        "vlen",
        ["vlen"],
        "columnar",
        n,
        {
            "object_id": fixed(np.arange(n, dtype="u4")),
            "ra": fixed(ra),
            "dec": fixed(dec),
            "lightcurve": lc,
            "harmonics": lists(other),
            "name": texts(["η Cen", "", "b", "c ", "d", "e"]),
        },
        id="object_id",
    )


def types():
    """Columnar: every element type, both byte orders, compound rows, enumerations, complex numbers, ids as text of bytes."""
    n = 10
    ra, dec = positions(n)
    cols = {}
    with open_("types/a.h5", libver="latest") as f:

        def put(name, v, **kw):
            f.create_dataset(name, data=v, **kw)
            cols[name] = fixed(v)

        f.create_dataset("object_id", data=np.array([f"b'   {2575025233207519232 + i}'" for i in range(n)], "S30"))
        cols["object_id"] = texts([f"{2575025233207519232 + i}" for i in range(n)])
        cols["object_id_raw"] = texts([f"b'   {2575025233207519232 + i}'" for i in range(n)])
        put("ra", ra.astype("f4")), put("dec", dec.astype("f4"))
        for t in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]:
            ii = np.iinfo(t)
            put(t, rng.integers(ii.min, ii.max, n, dtype=t, endpoint=True))
            put(
                t + "_be",
                rng.integers(ii.min, ii.max, n, dtype=t, endpoint=True).astype(">" + t),
                chunks=(3,),
                compression="gzip",
                shuffle=True,
                fletcher32=True,
            )
            put(
                t + "_t",
                rng.integers(ii.min, ii.max, (n, 2, 3), dtype=t, endpoint=True),
                chunks=(4, 1, 3),
                compression="lzf",
            )
        for t in ["f2", "f4", "f8"]:
            v = np.concatenate([rng.normal(size=n - 4), [np.nan, np.inf, -np.inf, -0.0]]).astype(t)
            put(t, v), put(t + "_be", v.astype(">" + t)), put(t + "_t", np.stack([v, v], 1), chunks=(3, 2))
        put("flag", np.arange(n) % 3 == 0)
        put("c8", (rng.normal(size=n) + 1j * rng.normal(size=n)).astype("c8"))
        put("c16", rng.normal(size=(n, 2)) + 1j * rng.normal(size=(n, 2)))
        e = rng.integers(0, 3, n).astype("i4")
        f.create_dataset("class", data=e, dtype=h5py.enum_dtype({"STAR": 0, "GALAXY": 1, "QSO": 2}, basetype="i4"))
        cols["class"] = fixed(e)
        t = np.dtype(
            [("mag", "<f4", (5,)), ("id", ">i8"), ("name", "S6"), ("ok", "?"), ("sub", [("a", "u1"), ("b", "<f8")])]
        )
        c = np.zeros(n, t)
        c["mag"], c["id"], c["name"], c["ok"] = (
            rng.normal(size=(n, 5)),
            np.arange(n) - 4,
            [f"n{i}  " for i in range(n)],
            np.arange(n) % 2,
        )
        c["sub"]["a"], c["sub"]["b"] = np.arange(n), rng.normal(size=n)
        f.create_dataset("phot", data=c, chunks=(4,), compression="gzip")
        for m in ["mag", "id", "ok"]:
            cols["phot_" + m] = fixed(c[m])
        cols["phot_sub_a"], cols["phot_sub_b"] = fixed(c["sub"]["a"]), fixed(c["sub"]["b"])
        cols["phot_name"] = texts([f"n{i}" for i in range(n)])
        fill = f.create_dataset("never_written", (n, 3), "f4", chunks=(4, 3), fillvalue=-99.5)
        fill[2:3] = 1
        cols["never_written"] = fixed(fill[()])
    case(
        "types",
        ["types"],
        "columnar",
        n,
        cols,
        id="object_id",
        warnings=["enum:class", "float32:ra", "float32:dec"],
        shapes={"c8": [], "c16": [2], "phot_mag": [5]},
    )


def small(file_, drop=(), n=3, **more):
    """A small columnar file with an id and positions but for what is dropped, and more."""
    d = {"object_id": np.arange(n, dtype="i4"), "ra": np.linspace(10, 20, n), "dec": np.linspace(-30, 30, n)}
    d.update(more)
    with open_(f"odd/{file_}", libver="latest") as f:
        for k, v in d.items():
            if k not in drop:
                f.create_dataset(k, data=v)


def one(name, **d):
    with open_(f"odd/{name}", libver="latest") as f:
        for k, v in d.items():
            f.create_dataset(k, data=v)


def odd():
    """Files for refusals and warnings, a few rows each."""
    small("ambiguous_lengths.h5", x=np.zeros(4))
    small("ambiguous_scalar.h5", version=np.float32(2))
    small("groups_beside.h5")
    with h5py.File(path("odd/groups_beside.h5"), "a", libver="latest") as f:
        f.create_group("history").create_dataset("x", data=np.zeros(2))
    one("empty.h5")
    small("two_ids.h5", drop=["object_id"], source_id=np.arange(3), target_id=np.arange(3))
    small("guessed_id.h5", drop=["object_id"], SOURCE_ID=np.arange(3))
    small(
        "repeated_id.h5", drop=["object_id"], field_id=np.array([7, 7, 8]), target_id=np.arange(3), valid=np.arange(3)
    )
    small("no_id.h5", drop=["object_id"])
    small("no_position.h5", drop=["ra", "dec"], x=np.arange(3.0))
    small("other_position.h5", drop=["ra", "dec"], RAJ2000=np.arange(3.0), DEJ2000=np.arange(3.0))
    small("nan.h5", n=5, ra=np.array([1, np.nan, 2, 3, 4.0]), dec=np.array([1, 2, 2, np.nan, 4.0]))
    small("off.h5", n=4, ra=np.array([1, 360, 2, 3.0]), dec=np.array([1, 2, -90.5, 3.0]))
    small("radians.h5", n=12, ra=np.linspace(0.1, 6.2, 12), dec=np.linspace(-1.5, 1.5, 12))
    small("hours.h5", n=12, ra=np.linspace(0.1, 23.8, 12), dec=np.linspace(-80, 80, 12))
    f4 = np.arange(3, dtype="f4")
    small(
        "shape_a.h5",
        object_id=np.arange(3) + 10,
        s=np.arange(15, dtype="f4").reshape(3, 5),
        t=np.arange(12, dtype="u1").reshape(3, 2, 2),
    )
    small("shape_b.h5", s=np.arange(21, dtype="f4").reshape(3, 7), t=np.arange(18, dtype="u1").reshape(3, 2, 3))
    small("clash_a.h5", x=np.arange(3, dtype="i8"), y=np.arange(3))
    small("clash_b.h5", x=np.arange(3, dtype="u8"), y=np.array([b"a", b"b", b"c"]))
    small(
        "widen_a.h5",
        p=np.array([-5, 0, 32767], "i2"),
        q=f4,
        r=np.array([True, False, True]),
        h=np.array([1.5, -2, 3], "f2"),
        m=np.array([1, 2, 2**53], "i8"),
    )
    small(
        "widen_b.h5",
        p=np.array([5, 0, 65535], "u2"),
        q=np.array([1, 2, 3], "u2"),
        r=np.array([-1, 0, 5], "i1"),
        h=np.array([1e30, 0, 1], "f4"),
        m=np.array([0.5, 1, 2]),
    )
    small("widen_c.h5", p=np.zeros(3, "i2"), q=f4, r=np.zeros(3, "i1"), h=f4, m=np.array([1, 2**53 + 1, 3], "i8"))
    small("missing_a.h5", z=f4, name=np.array([b"a", b"b", b"c"]), flux=np.zeros((3, 2), "f4"))
    small("missing_b.h5", flux=np.zeros((3, 2), "f4"))
    small("missing_c.h5", z=f4, name=np.array([b"a", b"b", b"c"]))
    small("unit_a.h5", flux=f4)
    small("unit_b.h5", flux=f4)
    for name, unit in [("unit_a.h5", "Jy"), ("unit_b.h5", "mJy")]:
        with h5py.File(path("odd/" + name), "a", libver="latest") as f:
            f["flux"].attrs["units"] = unit
    one("reference.h5", object_id=np.arange(3), ra=np.arange(3.0), dec=np.arange(3.0))
    with h5py.File(path("odd/reference.h5"), "a", libver="latest") as f:
        f.create_dataset("ref", data=[f["ra"].ref] * 3, dtype=h5py.ref_dtype)
    small("latin1.h5", name=np.array([b"caf\xe9", b"b", b"c"]))
    small("duplicate_ids.h5", object_id=np.array([1, 2, 1]))
    small("id_plain.h5", object_id=np.array([b"a", b"b", b"c"]))
    small("id_spaces.h5", object_id=np.array([b"a", b" b", b"c"]))
    small("id_empty.h5", object_id=np.array([b"a", b"", b"  "]))
    small("reserved.h5", Norder=np.arange(3))
    small("dotted.h5", **{"mag.g": f4})
    flag = np.array([0, 2, 1], h5py.enum_dtype({"FALSE": 0, "TRUE": 1}, basetype="i1"))
    small("not_bool.h5", flag=flag)
    small("text_table.h5", t=np.full((3, 2, 2), b"x"))
    small("zero_side.h5", t=np.zeros((3, 0), "f4"))
    small("no_rows.h5", n=0, x=np.zeros((0, 4), "f4"))
    small("float64.h5", z=np.array([0.5, 0.1, 1]))
    small("half_lists.h5", x=np.array([1.0, 2, 3]))
    with h5py.File(path("odd/half_lists.h5"), "a", libver="latest") as f:
        for name, lens in [("lc_time", [2, 1, 0]), ("lc_flux", [2, 1, 0]), ("lc_note", [2, 2, 0])]:
            d = f.create_dataset(name, (3,), dtype=h5py.vlen_dtype(np.dtype("f4")))
            for i, k in enumerate(lens):
                d[i] = np.arange(k, dtype="f4")
    one(
        "bands.h5",
        object_id=np.bytes_("a"),
        ra=1.0,
        dec=2.0,
        bands=np.bytes_("g,r"),
        time=np.ones((3, 4), "f4"),
        flux=np.ones((3, 4), "f4"),
    )
    for name, t in [("fixed_a.h5", 4), ("fixed_b.h5", 6)]:
        one(name, object_id=np.bytes_(name), ra=1.0, dec=2.0, spectrum=np.arange(t, dtype="f4"))
    member = np.dtype([("x", "f4"), ("s", "f4", (2,))])
    with open_("odd/ragged_arrays.h5", libver="latest") as f:
        for i in range(2):
            g = f.create_group(f"o{i}")
            g.attrs["ra"], g.attrs["dec"] = 1.0 + i, 2.0
            g.create_dataset("t", data=np.zeros(2 + i, member))


def main():
    for name in os.listdir(HERE):
        if os.path.isdir(os.path.join(HERE, name)) and name != "fuzz":
            shutil.rmtree(os.path.join(HERE, name))
    legacysurvey()
    desi()
    manga()
    groups_ragged()
    one_object("cfa", 0, False, ["mag", "mag_err"])
    one_object("ps1", -99, True, ["flux", "flux_err"])
    plasticc()
    vlen()
    types()
    odd()
    with open(path("expected.json"), "w") as f:
        json.dump(CASES, f, indent=1, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main()
