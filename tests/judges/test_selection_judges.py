"""Other programs as judges of selections and matches: DuckDB of predicates, xxhash of draws, astropy of the sky."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astropile
from astropile import _binary

duckdb = pytest.importorskip("duckdb")
xxhash = pytest.importorskip("xxhash")
coordinates = pytest.importorskip("astropy.coordinates")
u = pytest.importorskip("astropy.units")

ROWS = 1500
PREDICATES = 120


def release(folder: Path, name: str, lines: list[str], *recipe: str) -> Path:
    """A dataset of one JSONL or CSV table."""
    try:
        program = _binary.find()
    except astropile.BinaryNotFoundError as e:
        pytest.skip(str(e))
    table, root, cite = folder / name, folder / "root", folder / "c.bib"
    table.write_text("\n".join(lines) + "\n")
    cite.write_text("@misc{x, title={x}}\n")
    for command in (
        ["import", str(table), "--into", str(root), "--name", "judged", *recipe],
        ["release", str(root), "-m", "judged", "--licence", "CC0-1.0", "--citation", str(cite)],
    ):
        subprocess.run([program, *command], check=True, capture_output=True)
    return root


class Table:
    """Rows with numbers that are null or NaN, text and bools, as we and as DuckDB have them."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(5)
        words = ["agn", "qso", "star", "Star", "", "a%b", "ä"]
        rows: list[dict[str, Any]] = []
        for i in range(ROWS):
            rows.append(
                {
                    "id": i,
                    "ra": float(rng.uniform(0, 360)),
                    "dec": float(rng.uniform(-90, 90)),
                    "x": None if rng.random() < 0.2 else float(np.round(rng.normal(), 2)),
                    "y": float(np.round(rng.normal(), 1)),
                    "i": None if rng.random() < 0.2 else int(rng.integers(-20, 20)),
                    "k": int(rng.integers(-(2**60), 2**60)),
                    "s": None if rng.random() < 0.2 else words[rng.integers(len(words))],
                    "b": None if rng.random() < 0.2 else bool(rng.integers(2)),
                }
            )
        self.root = release(folder, "t.jsonl", [json.dumps(r) for r in rows])
        self.db = duckdb.connect()
        self.db.execute("create table t(id bigint, x double, y double, i bigint, k bigint, s varchar, b boolean)")
        self.db.executemany(
            "insert into t values (?, ?, ?, ?, ?, ?, ?)",
            [[r[c] for c in ("id", "x", "y", "i", "k", "s", "b")] for r in rows],
        )
        self.ids = [r["id"] for r in rows]
        self.ra = np.array([r["ra"] for r in rows])
        self.dec = np.array([r["dec"] for r in rows])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table(tmp_path_factory.mktemp("judged"))


class Maker:
    """Predicates at random, in our words and in SQL's."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)

    def number(self, deep: int) -> tuple[str, str]:
        c = self.r.random()
        if deep == 0 or c < 0.5:
            name = self.r.choice("xyi")
            return name, name
        if c < 0.6:
            n = self.r.choice(["0.5", "-1.25", "3", "0"])
            return f"({n})", f"({n}::double)"
        if c < 0.7:
            a, s = self.number(deep - 1)
            f = self.r.choice(["abs", "floor", "ceil"])
            return f"{f}({a})", f"{f}(({s})::double)"
        (a, s), (b, t) = self.number(deep - 1), self.number(deep - 1)
        op = self.r.choice("+-*")
        return f"({a} {op} {b})", f"(({s})::double {op} ({t})::double)"

    def predicate(self, deep: int) -> tuple[str, str]:
        c = self.r.random()
        if deep and c < 0.45:
            (a, s), (b, t) = self.predicate(deep - 1), self.predicate(deep - 1)
            op = self.r.choice(["and", "or"])
            return f"({a} {op} {b})", f"({s} {op} {t})"
        if deep and c < 0.6:
            a, s = self.predicate(deep - 1)
            return f"not ({a})", f"not ({s})"
        kind = self.r.randrange(7)
        op = self.r.choice(["<", "<=", ">", ">=", "==", "!="])
        sql = {"==": "=", "!=": "<>"}.get(op, op)
        if kind == 0:
            word = self.r.choice(["agn", "star", "", "ä", "zz"])
            return f's {op} "{word}"', f"s {sql} '{word}'"
        if kind == 1:
            f, like = self.r.choice([("contains", "%{}%"), ("startsWith", "{}%"), ("endsWith", "%{}")])
            word = self.r.choice(["a", "st", "r", "ä"])
            return f's {f} "{word}"', f"s like '{like.format(word)}'"
        if kind == 2:
            name = self.r.choice(["x", "i", "s", "b"])
            return self.r.choice(
                [(f"{name} == nil", f"{name} is null"), (f"not isnull({name})", f"{name} is not null")]
            )
        if kind == 3:
            some = sorted(self.r.sample(range(-20, 20), 4))
            text = ", ".join(map(str, some))
            return f"i in [{text}]", f"i in ({text})"
        if kind == 4:
            k = self.r.choice(["1152921504606846975", "-7", "0", "288230376151711743"])
            return f"k {op} {k}", f"k {sql} {k}"
        if kind == 5:
            return self.r.choice([("b", "b"), ("not b", "not b"), ("b == false", "b = false")])
        (a, s), (b, t) = self.number(2), self.number(2)
        return f"{a} {op} {b}", f"({s})::double {sql} ({t})::double"


@pytest.mark.slow
def test_duckdb_selects_the_same_rows(table: Table) -> None:
    make = Maker(11)
    taken = 0
    for _ in range(PREDICATES):
        ours, sql = make.predicate(3)
        want = [r[0] for r in table.db.execute(f"select id from t where {sql} order by id").fetchall()]
        with astropile.open(table.root, columns=["id"], where=ours) as ds:
            got = sorted(ds[:]["id"].tolist()) if len(ds) else []
        assert got == want, f"{ours}\n{sql}"
        taken += 0 < len(want) < ROWS
    assert taken > PREDICATES // 2  # most decide something


def test_xxhash_draws_the_same_splits_and_samples(table: Table) -> None:
    def at(word: str, i: int, key: int) -> float:
        return float(xxhash.xxh3_64(f"{word}\0{i}".encode(), seed=key).intdigest() / 2**64)

    for key in (0, 77):
        with astropile.open(table.root, columns=["id"], sample=0.25, key=key) as ds:
            assert sorted(ds[:]["id"].tolist()) == [i for i in table.ids if at("sample", i, key) < 0.25]
        shares = {"fit": 0.5, "look": 0.3, "keep": 0.2}
        low = 0.0
        for name, share in shares.items():
            with astropile.open(table.root, columns=["id"], split=name, splits=shares, key=key) as ds:
                want = [i for i in table.ids if low <= at("split", i, key) < low + share]
                assert sorted(ds[:]["id"].tolist()) == want
            low += share


def test_astropy_finds_the_same_rows_in_cones(table: Table) -> None:
    sky = coordinates.SkyCoord(table.ra * u.deg, table.dec * u.deg)
    for ra, dec, radius in ((0.2, 0.0, 20.0), (359.9, 60.0, 15.0), (123.0, 89.5, 12.0), (10.0, -90.0, 30.0)):
        far = sky.separation(coordinates.SkyCoord(ra * u.deg, dec * u.deg)).deg
        assert np.abs(far - radius).min() > 1e-9
        with astropile.open(table.root, columns=["id"], region=astropile.cone(ra, dec, radius)) as ds:
            assert sorted(ds[:]["id"].tolist()) == np.flatnonzero(far <= radius).tolist()


def test_astropy_matches_the_same_pairs(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 1200
    # Whole skies, both poles, the seam at 0 degrees; the second set is the first one, moved a little, and strangers.
    ra = np.concatenate([rng.uniform(0, 360, n), rng.uniform(0, 360, 200), rng.uniform(-0.001, 0.001, 200) % 360])
    dec = np.degrees(np.arcsin(rng.uniform(-1, 1, n)))
    dec = np.concatenate([dec, rng.choice([-1, 1], 200) * rng.uniform(89.999, 90, 200), rng.uniform(-60, 60, 200)])
    keep = rng.permutation(len(ra))[: len(ra) * 2 // 3]
    away = rng.uniform(0, 2.0, len(keep)) / 3600
    turn = rng.uniform(0, 2 * np.pi, len(keep))
    moved = coordinates.SkyCoord(ra[keep] * u.deg, dec[keep] * u.deg).directional_offset_by(turn * u.rad, away * u.deg)
    sets = []
    for name, (a, d) in {"a": (ra, dec), "b": (moved.ra.deg, moved.dec.deg)}.items():
        (tmp_path / name).mkdir()
        lines = [f"{i},{x!r},{y!r}" for i, (x, y) in enumerate(zip(a.tolist(), d.tolist(), strict=True))]
        sets.append(release(tmp_path / name, f"{name}.csv", ["id,ra,dec", *lines]))
    first = coordinates.SkyCoord(ra * u.deg, dec * u.deg)
    k, far, _ = first.match_to_catalog_sky(moved)
    radius = 1.0
    assert np.abs(far.arcsec - radius).min() > 1e-6
    want = {(i, int(j)) for i, (j, s) in enumerate(zip(k, far.arcsec, strict=True)) if s <= radius}
    i, j, _, _ = coordinates.search_around_sky(first, moved, radius * u.arcsec)
    assert want <= set(zip(i.tolist(), j.tolist(), strict=True))
    with (
        astropile.open(sets[0], columns={"mine": "id"}) as a,
        astropile.open(sets[1], columns={"theirs": "id"}) as b,
        astropile.match(a, b, radius=radius) as both,
    ):
        batch = both[:]
        got = set(zip(batch["mine"].tolist(), batch["theirs"].tolist(), strict=True))
        assert got == want
        assert len(want) > 300
        seen: list[int] = []
        for step in both.batches(64, shuffle=True, seed=2):
            seen += step["mine"].tolist()
        assert sorted(seen) == sorted(m for m, _ in want)
