"""What h5py, astropy or pyarrow say a survey holds, or pyarrow an import of it: rows, a checksum of ids and one of values.

FOLDER is a survey that prepare_survey.py wrote; with --import the root that `astropile import` made of it. A row counts as
the CRC-32 of its id and of the values that KINDS names, and rows are summed, so their order does not matter.
"""

from __future__ import annotations

import argparse
import gzip
import io
import itertools
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

STAR = ("ra", "dec", "coeff", "coeff_error", "mag_00", "mag_24")
CUTOUTS = ("Science", "Template", "Difference")

# Ids as text, then one array [n, ...] or n arrays of any length a column.
Rows = tuple[list[bytes], list[Any]]


def text(ids: Any) -> list[bytes]:
    """Ids as the bytes of their text."""
    return [x if isinstance(x, bytes) else str(x).strip().encode() for x in ids]


def near(degrees: np.ndarray) -> np.ndarray:
    """To the microarcsecond or so: for what one side computes by trigonometry."""
    return np.round(degrees, 9)


def columnar(folder: Path, names: tuple[str, ...]) -> Iterator[Rows]:
    import h5py

    for file in sorted(folder.rglob("*.hdf5")):
        with h5py.File(file, "r") as f:
            yield text(f["object_id"][:]), [f[n][:] for n in names]


def objects(folder: Path) -> Iterator[Rows]:
    import h5py

    for file in sorted(folder.rglob("*.hdf5")):
        with h5py.File(file, "r") as f:
            there = f["time"][:] != -99
            curve = [[f[n][:][there]] for n in ("time", "flux", "flux_err")]
            place = [np.array([f[n][()]]) for n in ("ra", "dec", "redshift")]
            yield text([f["object_id"][()]]), [*curve, *place]


def groups(folder: Path) -> Iterator[Rows]:
    import h5py

    for file in sorted(folder.rglob("*.hdf5")):
        with h5py.File(file, "r") as f:
            for g in f.values():
                s = g["spaxels"][:]
                cube = [s[n][None] for n in ("flux", "ivar", "x", "y")]
                yield text([g.attrs["object_id"]]), [*cube, *(np.array([g.attrs[n]]) for n in ("ra", "dec", "z"))]


def fits_table(folder: Path) -> Iterator[Rows]:
    from astropy.io import fits

    for file in sorted(folder.glob("*.fits")):
        with fits.open(file) as f:
            t = f[1].data
            yield text(t["object_id"]), [common.native(t[n]) for n in STAR]


def fits_images(folder: Path) -> Iterator[Rows]:
    from astropy.io import fits

    for file in sorted(folder.glob("*.fits")):
        with fits.open(file) as f:
            place = [near(np.array([f[0].header[k]])) for k in ("CRVAL1", "CRVAL2")]
            yield text([f[0].header["OBJECT"]]), [common.native(f[0].data)[None], *place]


def parquet(folder: Path) -> Iterator[Rows]:
    for file in sorted(folder.glob("*.parquet")):
        t = pq.read_table(file)
        yield text(t["object_id"].to_pylist()), [fixed(t[n]) for n in STAR]


def alerts(folder: Path) -> Iterator[Rows]:
    from astropy.io import fits

    for file in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            now, past = row["candidate"], row["prv_candidates"]
            images = []
            for k in CUTOUTS:
                with fits.open(io.BytesIO(gzip.decompress(row[f"cutout{k}"]["stampData"]))) as f:
                    images.append(common.native(f[0].data)[None])
            values = [np.array([now[k]]) for k in ("ra", "dec", "jd")]
            curve = [[np.array([p[k] for p in past], t)] for k, t in (("jd", "f8"), ("magpsf", "f4"))]
            yield text([row["candid"]]), [*values, *curve, *images]


def csv(folder: Path) -> Iterator[Rows]:
    from pyarrow import csv as pacsv

    for file in sorted(folder.glob("*.csv")):
        t = pacsv.read_csv(file)
        yield text(t["object_id"].to_pylist()), [t[n].to_numpy() for n in ("ra", "dec", "mag_00", "mag_24")]


def fixed(column: pa.ChunkedArray) -> np.ndarray:
    """Rows of one shape, flattened: [n, k]."""
    a = column.combine_chunks()
    n = len(a)
    while not pa.types.is_primitive(a.type):
        a = a.flatten()
    return a.to_numpy(zero_copy_only=False).reshape(n, -1)


def ragged(column: pa.ChunkedArray, member: str) -> list[np.ndarray]:
    """The lists of a member of a struct."""
    lists = column.combine_chunks().field(member)
    values, offsets = lists.values.to_numpy(zero_copy_only=False), lists.offsets.to_numpy()
    return [values[a:b] for a, b in itertools.pairwise(offsets)]


# Of each kind: who reads the source, the id, and in which columns of an import the same values stand. A dot asks for a member.
KINDS: dict[str, tuple[str, Callable[[Path], Iterator[Rows]], str, tuple[str, ...]]] = {
    "gaia": ("h5py", lambda f: columnar(f, STAR), "object_id", STAR),
    "images": (
        "h5py",
        lambda f: columnar(f, ("image_array", "ra", "dec", "z")),
        "object_id",
        ("image_array", "ra", "dec", "z"),
    ),
    "objects": (
        "h5py",
        objects,
        "object_id",
        ("lightcurve.time", "lightcurve.flux", "lightcurve.flux_err", "ra", "dec", "redshift"),
    ),
    "groups": (
        "h5py",
        groups,
        "object_id",
        ("spaxels_flux", "spaxels_ivar", "spaxels_x", "spaxels_y", "ra", "dec", "z"),
    ),
    "fits-table": ("astropy", fits_table, "object_id", STAR),
    "fits-images": ("astropy", fits_images, "file", ("image", "near ra", "near dec")),
    "parquet": ("pyarrow", parquet, "object_id", STAR),
    "alerts": (
        "pyarrow and astropy",
        alerts,
        "candid",
        (
            "candidate_ra",
            "candidate_dec",
            "candidate_jd",
            "prv_candidates.jd",
            "prv_candidates.magpsf",
            *(f"cutout{k}_stampData" for k in CUTOUTS),
        ),
    ),
    "csv": ("pyarrow", csv, "object_id", ("ra", "dec", "mag_00", "mag_24")),
}


def imported(root: Path, key: str, columns: tuple[str, ...], wide: bool) -> Iterator[Rows]:
    """The same values of every shard that stands in a root, staged or released."""
    names = [c.removeprefix("near ").partition(".") for c in columns]
    # Only shards: a release's table of scalars holds the same rows.
    for file in sorted(root.rglob("Npix=*/*.parquet")):
        f = pq.ParquetFile(file)
        for g in range(f.num_row_groups):
            t = f.read_row_group(g)
            values = [ragged(t[n], member) if member else fixed(t[n]) for n, _, member in names]
            if wide:
                values = [v.astype("f8") for v in values]
            values = [near(v) if c.startswith("near ") else v for c, v in zip(columns, values)]
            yield text(t[key].to_pylist()), values


def checksum(batches: Iterator[Rows]) -> dict[str, int]:
    """Rows, the sum of the CRC-32 of the ids, and of the ids with the values."""
    rows = total = digest = 0
    for ids, columns in batches:
        n = len(ids)
        flat = [np.ascontiguousarray(c).reshape(n, -1).view(np.uint8) for c in columns if isinstance(c, np.ndarray)]
        matrix = np.concatenate(flat, axis=1)
        lists = [c for c in columns if not isinstance(c, np.ndarray)]
        for i, name in enumerate(ids):
            crc = zlib.crc32(name)
            total += crc
            crc = zlib.crc32(matrix[i].data, crc)
            for c in lists:
                crc = zlib.crc32(np.ascontiguousarray(c[i]).data, crc)
            digest += crc
        rows += n
    return {"rows": rows, "sum": total & common.MASK, "digest": digest & common.MASK}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("folder", type=Path)
    p.add_argument("kind", choices=sorted(KINDS))
    p.add_argument("--import", dest="made", action="store_true")
    p.add_argument("--check", action="store_true", help="as every judge; nothing else is done")
    a = p.parse_args()
    by, read, key, columns = KINDS[a.kind]
    if a.made:
        print(json.dumps(checksum(imported(a.folder, key, columns, a.kind == "csv"))))
        return
    size = sum(f.stat().st_size for f in a.folder.rglob("*") if f.is_file())
    print(json.dumps({"by": by, "all_bytes": size, **checksum(read(a.folder))}))


if __name__ == "__main__":
    main()
