"""A HATS client's view of the sky of a release: the map of rows, partitions, searches, a match with itself; after an append too."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")
hats = pytest.importorskip("hats")
lsdb = pytest.importorskip("lsdb")
skymap = pytest.importorskip("hats.io.skymap")
shim = pytest.importorskip("hats.pixel_math.healpix_shim")

pytestmark = pytest.mark.slow

ROWS = (900, 350)  # of the first release and of the append


class Sky(NamedTuple):
    root: Path
    ids: np.ndarray
    ra: np.ndarray
    dec: np.ndarray


@pytest.fixture(scope="module", params=[1, 2], ids=["first", "appended"])
def sky(request, astropile, tmp_path_factory):
    """A dense field across ra 0, one at each pole, and a scatter of single objects."""
    base = tmp_path_factory.mktemp("sky")
    (base / "cite.txt").write_text("x")
    parts = []
    for n in range(request.param):
        rng, rows = np.random.default_rng(20 + n), ROWS[n]
        where = rng.integers(0, 5, rows)
        ra = np.where(where < 2, rng.normal(0, 1, rows), rng.uniform(0, 360, rows)) % 360
        polar = 90 - 0.5 * np.abs(rng.normal(size=rows))
        dec = np.choose(
            where, [rng.normal(0, 1, rows), rng.normal(3, 1, rows), polar, -polar, rng.uniform(-80, 80, rows)]
        )
        ids = np.arange(rows) + 10_000 * n
        with h5py.File(base / f"{n}.hdf5", "w") as f:
            f["object_id"], f["ra"], f["dec"] = ids, ra, dec
            f["mag"] = rng.normal(20, 1, rows).astype("f4")
        astropile("import", base / f"{n}.hdf5", "--into", base / "field", "--shard-size", "64KiB", "--expect", "16x")
        terms = ("--licence", "MIT", "--citation", base / "cite.txt") if n == 0 else ()
        astropile("release", base / "field", "-m", str(n), *terms)
        parts.append((ids, ra, dec))
    return Sky(base / "field", *(np.concatenate(column) for column in zip(*parts, strict=True)))


def catalogue(sky: Sky):
    return hats.read_hats(sky.root).main_catalog


def test_the_sky_map_sums_to_the_rows_of_each_pixel(sky):
    cat = catalogue(sky)
    finest = cat.catalog_info.skymap_order
    assert cat.catalog_info.total_rows == len(sky.ids)
    for order in {0, finest // 2, finest}:
        counts = skymap.read_skymap(cat, order)
        assert counts.sum() == len(sky.ids)
        pixels = shim.radec2pix(order, sky.ra, sky.dec)
        np.testing.assert_array_equal(counts, np.bincount(pixels, minlength=12 << 2 * order))


def test_partitions_cover_every_object_once(sky):
    cat = catalogue(sky)
    pixels = cat.get_healpix_pixels()
    orders = {p.order for p in pixels}
    assert len(pixels) > 12
    assert len(orders) > 1
    held = np.zeros(len(sky.ids), int)
    for p in pixels:
        held += shim.radec2pix(p.order, sky.ra, sky.dec) == p.pixel
    assert (held == 1).all()


def test_the_fraction_of_the_sky_is_the_one_hats_computes(sky):
    cat = catalogue(sky)
    told = cat.catalog_info.moc_sky_fraction
    assert told == pytest.approx(cat.partition_info.calculate_fractional_coverage(), rel=1e-6)
    assert 0 < told < 1


def test_searches_find_what_brute_force_finds(sky):
    cat = lsdb.open_catalog(sky.root)
    box = cat.box_search(ra=(359, 1.5), dec=(-1, 2)).compute()
    inside = ((sky.ra >= 359) | (sky.ra <= 1.5)) & (sky.dec >= -1) & (sky.dec <= 2)
    assert sorted(box["object_id"]) == sorted(sky.ids[inside])
    assert inside.any()
    order, pixel = 2, int(shim.radec2pix(2, [0.5], [0.5])[0])
    found = cat.pixel_search([(order, pixel)]).compute()
    held = shim.radec2pix(order, sky.ra, sky.dec) == pixel
    # A pixel search gives whole partitions: all of the pixel, and more where a partition is larger.
    assert set(sky.ids[held]) <= set(found["object_id"])


def test_a_match_with_itself_finds_every_object(sky):
    cat = lsdb.open_catalog(sky.root)
    matched = cat.crossmatch(cat, radius_arcsec=1e-3, n_neighbors=1, suffixes=("_a", "_b"), require_right_margin=False)
    frame = matched.compute()
    assert (frame["object_id_a"] == frame["object_id_b"]).all()
    assert sorted(frame["object_id_a"]) == sorted(sky.ids)
