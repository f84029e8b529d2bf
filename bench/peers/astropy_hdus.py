"""astropy: the columns of the tables of a FITS file, or its images, as arrays in this machine's byte order.

The digest is the sum, over columns and images, of the CRC-32 of each row; an image is one row. Text is without its padding.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import numpy as np
from astropy.io import fits


def columns(file: Path) -> Iterator[np.ndarray]:
    with fits.open(file) as f:
        for hdu in f:
            if isinstance(hdu, fits.BinTableHDU):
                data = hdu.data
                for name in data.names:
                    yield common.native(data[name])


def images(file: Path) -> Iterator[np.ndarray]:
    with fits.open(file) as f:
        for hdu in f:
            if hdu.is_image and hdu.data is not None:
                yield common.native(hdu.data)[None]


def value_bytes(a: np.ndarray) -> int:
    return int(np.char.str_len(a).sum()) if a.dtype.kind in "US" else a.nbytes


def digest(a: np.ndarray) -> tuple[int, int]:
    """The sum of the whole int64 words of every row, and of their CRC-32."""
    if a.dtype.kind in "US":
        rows = [x.encode() if isinstance(x, str) else bytes(x) for x in a.tolist()]
        words = sum(int(np.frombuffer(x[: len(x) // 8 * 8], "<i8").sum()) for x in rows)
        return words, sum(zlib.crc32(x) for x in rows)
    flat = a.reshape(len(a), -1).view(np.uint8)
    whole = np.ascontiguousarray(flat[:, : flat.shape[1] // 8 * 8]).view("<i8")
    return int(np.add.reduce(whole.reshape(-1))), sum(zlib.crc32(row.data) for row in flat)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("file", type=Path)
    p.add_argument("--images", action="store_true")
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    read = images if a.images else columns
    rows = size = total = check = 0
    begin = time.perf_counter()
    for array in read(a.file):
        rows = rows + 1 if a.images else len(array)
        if a.check:
            size += value_bytes(array)
            words, crc = digest(array)
            total, check = total + words, check + crc
        else:
            size += array.nbytes
    seconds = time.perf_counter() - begin
    out = {"by": "astropy", "rows": rows, "bytes": size, "seconds": [seconds], "gbs": size / seconds / 1e9}
    if a.check:
        out |= {"sum": total & common.MASK, "digest": check & common.MASK}
    common.report(out)


if __name__ == "__main__":
    main()
