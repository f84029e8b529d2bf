"""Margin and id index through HATS clients: strict validation, matches across pixels as exact as astropy's, searches by id; after appends that open pixels too."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import second_reader

h5py = pytest.importorskip("h5py")
hats = pytest.importorskip("hats")
lsdb = pytest.importorskip("lsdb")
pq = pytest.importorskip("pyarrow.parquet")
u = pytest.importorskip("astropy.units")
coordinates = pytest.importorskip("astropy.coordinates")
astropy_healpix = pytest.importorskip("astropy_healpix")
from hats.io.validation import is_valid_collection  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROWS = int(os.environ.get("ASTROPILE_MARGIN_ROWS", "5000"))
RADIUS = 10.0
THREE = np.degrees(np.arcsin(2 / 3))  # declination where three base pixels meet
# Where pixels meet: poles, ra 0, corners and edges of base pixels and of finer ones.
HARD = [
    (0, 90),
    (0, -90),
    (0, THREE),
    (90, THREE),
    (180, -THREE),
    (270, -THREE),
    (45, 0),
    (0, 0),
    (90, 0),
    (22.5, 19.47),
    (0, 60),
]


class Sky(NamedTuple):
    ids: np.ndarray
    ra: np.ndarray
    dec: np.ndarray

    def where(self, mask) -> Sky:
        return Sky(self.ids[mask], self.ra[mask], self.dec[mask])

    def places(self):
        return coordinates.SkyCoord(self.ra * u.deg, self.dec * u.deg)


def random_sky(seed: int, rows: int) -> Sky:
    """Rows over the whole sky, most of them within a minute of arc or two of where pixels meet."""
    rng = np.random.default_rng(seed)
    ra, dec = rng.uniform(0, 360, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    which = rng.integers(0, len(HARD) + 2, rows)
    for k, (a, d) in enumerate(HARD):
        at = which == k
        far, angle = rng.uniform(0, 1, at.sum()) ** 0.5 * 90 / 3600, rng.uniform(0, 2 * np.pi, at.sum())
        if abs(d) == 90:
            ra[at], dec[at] = rng.uniform(0, 360, at.sum()), np.sign(d) * (90 - far)
        else:
            dec[at] = d + far * np.cos(angle)
            ra[at] = (a + far * np.sin(angle) / np.cos(np.radians(d))) % 360
    return Sky(np.arange(rows) * 7 - 1000, ra, dec)


def publish(astropile, base: Path, name: str, number: int, sky: Sky, ids, *flags) -> dict:
    with h5py.File(base / f"{name}{number}.hdf5", "w") as f:
        f["object_id"], f["ra"], f["dec"] = ids, sky.ra, sky.dec
        f["number"] = sky.ids
        f["image"] = np.random.default_rng(number).normal(size=(len(sky.ids), 2, 3)).astype("f4")
    (base / "cite.txt").write_text("x")
    astropile("import", base / f"{name}{number}.hdf5", "--into", base / name, "--shard-size", "64KiB", "--expect", "2x")
    terms = ("--licence", "MIT", "--citation", base / "cite.txt") if number == 1 else ()
    done = astropile("release", base / name, "-m", number, "--json", *terms, *flags)
    return json.loads(done.stdout)


class Pair(NamedTuple):
    left: Path
    right: Path
    left_sky: Sky
    right_sky: Sky
    text: bool
    report: dict


@pytest.fixture(scope="module", params=["first", "appended", "asked later"])
def pair(request, astropile, tmp_path_factory):
    """Two datasets; the right one has a margin and an index, from its first release or from its second on."""
    base = tmp_path_factory.mktemp("pair")
    left, right = random_sky(1, ROWS), random_sky(2, ROWS)
    # The first release leaves half of the sky empty, with an edge along ra 0 and across dense fields.
    early = (right.ra < 180) & (right.dec > -60)
    text = request.param != "appended"
    ids = np.array([f"J{i:+07d}" for i in right.ids], dtype="S8") if text else right.ids
    publish(astropile, base, "left", 1, left, left.ids)
    flags = ("--margin", "10", "--index", "object_id")
    report = publish(
        astropile, base, "right", 1, right.where(early), ids[early], *(flags if request.param != "asked later" else ())
    )
    if request.param == "first":
        right = right.where(early)
    else:
        report = publish(
            astropile,
            base,
            "right",
            2,
            right.where(~early),
            ids[~early],
            *(flags if request.param == "asked later" else ()),
        )
    return Pair(base / "left", base / "right", left, right, text, report)


def test_hats_finds_the_collection_valid(pair):
    assert is_valid_collection(pair.right, strict=True)
    collection = hats.read_hats(pair.right)
    assert collection.all_margins == ["right_margin"]
    assert collection.default_margin == "right_margin"
    assert collection.all_indexes == {"object_id": "right_ids"}
    assert collection.default_index_field == "object_id"
    assert collection.get_margin_thresholds() == {"right_margin": RADIUS}


def test_our_own_verify_finds_it_whole(pair, astropile):
    told = json.loads(astropile("verify", pair.right, "--deep", "--json").stdout)
    assert told["rows"] == len(pair.right_sky.ids)
    assert told["findings"] == []


def test_a_match_is_astropys(pair):
    left, right = lsdb.open_catalog(pair.left), lsdb.open_catalog(pair.right)
    assert right.margin is not None
    frame = left.crossmatch(right, radius_arcsec=RADIUS, n_neighbors=1000, suffixes=("_a", "_b")).compute()
    i, j, far, _ = coordinates.search_around_sky(pair.left_sky.places(), pair.right_sky.places(), RADIUS * u.arcsec)
    want = set(zip(pair.left_sky.ids[i].tolist(), pair.right_sky.ids[j].tolist(), strict=True))
    got = list(zip(frame["number_a"].tolist(), frame["number_b"].tolist(), strict=True))
    assert len(got) == len(set(got))
    assert set(got) == want
    # Enough of them need a row of another pixel for the test to say something.
    pixel = astropy_healpix.HEALPix(nside=16, order="nested", frame="icrs").skycoord_to_healpix
    across = pixel(pair.left_sky.places()[i]) != pixel(pair.right_sky.places()[j])
    assert across.sum() > 100
    assert far.max() < RADIUS * u.arcsec


def test_the_nearest_neighbour_is_astropys(pair):
    left, right = lsdb.open_catalog(pair.left), lsdb.open_catalog(pair.right)
    frame = left.crossmatch(right, radius_arcsec=RADIUS, n_neighbors=1, suffixes=("_a", "_b")).compute()
    k, far, _ = pair.left_sky.places().match_to_catalog_sky(pair.right_sky.places())
    near = far < RADIUS * u.arcsec
    want = dict(zip(pair.left_sky.ids[near].tolist(), pair.right_sky.ids[k[near]].tolist(), strict=True))
    assert dict(zip(frame["number_a"].tolist(), frame["number_b"].tolist(), strict=True)) == want
    assert len(frame) == len(want) > 100


def test_every_row_near_a_pixels_edge_is_in_its_margin(pair):
    """Edges as astropy-healpix draws them: what is near a point of one is in the margin."""
    margin = hats.read_hats(pair.right / "right_margin")
    held = {(p.order, p.pixel) for p in margin.get_healpix_pixels()}
    places, near = pair.right_sky.places(), 0
    for p in hats.read_hats(pair.right).get_healpix_pixels():
        grid = astropy_healpix.HEALPix(nside=2**p.order, order="nested", frame="icrs")
        steps = min(4000, max(20, int(60 * 3600 / 2**p.order / 20)))
        ra, dec = grid.boundaries_lonlat([p.pixel], step=steps)
        edge = coordinates.SkyCoord(ra.ravel(), dec.ravel())
        i, _, _, _ = coordinates.search_around_sky(places, edge, 0.999 * RADIUS * u.arcsec)
        i = np.unique(i)
        outside = grid.skycoord_to_healpix(places[i]) != p.pixel
        want = set(pair.right_sky.ids[i[outside]].tolist())
        folder = (
            pair.right
            / "right_margin"
            / "dataset"
            / f"Norder={p.order}"
            / f"Dir={p.pixel // 10000 * 10000}"
            / f"Npix={p.pixel}"
        )
        got = [n for f in folder.glob("*.parquet") for n in pq.ParquetFile(f).read(["number"])["number"].to_pylist()]
        assert len(got) == len(set(got))
        assert want <= set(got)
        assert ((p.order, p.pixel) in held) == bool(got)
        near += len(want)
    assert near > 100


def test_ids_are_found_in_the_pixels_that_hold_them(pair):
    cat = lsdb.open_catalog(pair.right)
    name = (lambda n: f"J{n:+07d}") if pair.text else int
    for ids in (pair.right_sky.ids[:1], pair.right_sky.ids[-1:], pair.right_sky.ids[:: ROWS // 11]):
        found = cat.id_search(values={"object_id": [name(n) for n in ids]})
        assert len(found.get_healpix_pixels()) <= len(ids)
        assert sorted(found.compute()["number"]) == sorted(ids)
    pixels = hats.read_hats(pair.right / "right_ids").loc_partitions([name(10**6)])
    assert len(pixels) == 0


def test_the_second_reader_and_other_clients_read_primary_rows_alone(pair, astropile):
    ds = second_reader.Dataset(pair.right)
    assert sum(s.entry["rows"] for s in ds.shards()) == len(pair.right_sky.ids)
    assert ds.pieces() == sum(s["bytes"] for s in ds.latest.manifest) // ds.meta["piece"]
    assert ds.meta["margin"] == 10_000
    assert ds.meta["index"] == "object_id"
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset(str(pair.right), split="train", cache_dir=str(pair.right.parent / "cache"))
    assert sorted(loaded["number"]) == sorted(pair.right_sky.ids)
    told = json.loads(astropile("stream", pair.right, "--json", "--epochs", "1", "--columns", "image").stdout)
    assert told["rows"] == len(pair.right_sky.ids)


def test_the_margin_is_said_and_its_rows_equal_their_own(pair):
    assert pair.report["margin"]["radius_arcsec"] == RADIUS
    assert pair.report["margin"]["rows"] > 0
    assert pair.report["rows"] == len(pair.right_sky.ids)
    own = {}
    for f in (pair.right / "right" / "dataset").rglob("*.parquet"):
        for row in pq.ParquetFile(f).read().to_pylist():
            own[row["number"]] = row
    copies = 0
    for f in (pair.right / "right_margin" / "dataset").rglob("*.parquet"):
        for row in pq.ParquetFile(f).read().to_pylist():
            assert row == own[row["number"]]
            copies += 1
    assert copies >= pair.report["margin"]["rows"]
