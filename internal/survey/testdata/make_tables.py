"""Write the small files of testdata/tables: `python make_tables.py`, with numpy, astropy and pyarrow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from astropy.io import fits
from astropy.table import Table
from astropy.wcs import WCS

HERE = Path(__file__).parent / "tables"
N = 40


def main() -> None:
    """Write all of them; the bytes of Parquet files depend on the version of pyarrow."""
    rng = np.random.default_rng(5)
    ra, dec = rng.uniform(0, 360, N), np.degrees(np.arcsin(rng.uniform(-1, 1, N)))

    alerts = [
        {
            "alertId": 1000 + i,
            "candidate": {"ra": ra[i], "dec": dec[i], "mag": None if i % 7 == 0 else 18 + i / 10, "rb": {"drb": i / N}},
            "history": None
            if i % 5 == 0
            else [{"mjd": 60000.0 + k, "fid": None if k == 2 else k, "name": f"e{k}"} for k in range(i % 4)],
            "stamp": [[float(i + x + y) for x in range(3)] for y in range(2)],
            "flags": [True, None, False] if i == 3 else [True, False, True],
        }
        for i in range(N)
    ]
    pq.write_table(pa.Table.from_pylist(alerts), HERE / "alerts.parquet", row_group_size=16)

    t = Table(
        {
            "TARGETID": np.arange(N) + 10**12,
            "RA": np.where(ra > 180, ra - 360, ra),
            "DEC": dec,
            "TYPE": np.array(["GALAXY", "STAR"])[np.arange(N) % 2],
            "FLUX": rng.normal(size=(N, 5)).astype("f4"),
            "U": rng.integers(0, 60000, N).astype("u2"),
        }
    )
    t["FLUX"].unit = "nJy"
    t.write(HERE / "targets.fits", overwrite=True)
    fits.HDUList(
        [fits.PrimaryHDU(), fits.BinTableHDU(t, name="TARGETS"), fits.BinTableHDU(t[:3], name="EXTRA")]
    ).writeto(HERE / "two.fits", overwrite=True)

    folder = HERE / "images"
    folder.mkdir(exist_ok=True)
    for i in range(3):
        w = WCS(naxis=2)
        w.wcs.ctype, w.wcs.crval, w.wcs.crpix = ["RA---TAN", "DEC--TAN"], [10.0 + 20 * i, -30.0 + i], [4.5, 4.5]
        w.wcs.cdelt = [-1e-4, 1e-4]
        h = w.to_header()
        h["EXPTIME"] = 30.0 + i
        fits.HDUList(
            [
                fits.PrimaryHDU(),
                fits.ImageHDU(rng.normal(size=(8, 8)).astype("f4"), h, name="SCI"),
                fits.CompImageHDU(rng.integers(-9, 9, (8, 8)).astype("i2"), name="MASK", compression_type="RICE_1"),
            ]
        ).writeto(folder / f"galaxy_{i}.fits", overwrite=True)


if __name__ == "__main__":
    main()
