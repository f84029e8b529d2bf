"""HEALPix pixels against those of hats (cdshealpix) and astropy-healpix, on a million positions and on every kind of edge."""

from __future__ import annotations

import importlib.util
import subprocess
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

astropy_healpix = pytest.importorskip("astropy_healpix")
u = pytest.importorskip("astropy.units")
hats = pytest.importorskip("hats.pixel_math.healpix_shim")
pytest.importorskip("cdshealpix")


def ours(binary, order, ra, dec):
    pairs = np.stack([ra, dec], axis=1).astype("<f8").tobytes()
    done = subprocess.run([binary, "healpix", "--order", str(order)], input=pairs, capture_output=True, check=True)
    return np.frombuffer(done.stdout, "<i8")


def astropy_pixels(order, ra, dec):
    grid = astropy_healpix.HEALPix(nside=2**order, order="nested")
    return grid.lonlat_to_healpix(ra * u.deg, dec * u.deg)


@pytest.fixture(scope="module")
def random_positions():
    rng = np.random.default_rng(20261201)
    return rng.uniform(0, 360, 1_000_000), np.degrees(np.arcsin(rng.uniform(-1, 1, 1_000_000)))


@pytest.mark.parametrize("order", [0, 4, 12, 20])
def test_a_million_positions_have_the_pixel_that_both_say(astropile_bin, random_positions, order):
    got = ours(astropile_bin, order, *random_positions)
    np.testing.assert_array_equal(got, hats.radec2pix(order, *random_positions))
    np.testing.assert_array_equal(got, astropy_pixels(order, *random_positions))


@pytest.fixture(scope="module")
def exact():
    """The script that works HEALPix out in decimals of 50 digits, as a module."""
    path = Path(__file__).parents[2] / "internal" / "sky" / "testdata" / "make.py"
    spec = importlib.util.spec_from_file_location("sky_testdata_make", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_at_order_29_they_differ_by_a_rounding_at_most(astropile_bin, random_positions, exact):
    ra, dec = random_positions
    got = ours(astropile_bin, 29, ra, dec)
    others = hats.radec2pix(29, ra, dec), astropy_pixels(29, ra, dec)
    for other in others:
        assert (got != other).sum() <= 5
    # Where they differ, and at a sample, the position is within a millionth of a pixel's width of the pixel.
    for i in [*np.flatnonzero((got != others[0]) | (got != others[1])), *range(0, 1_000_000, 5000)]:
        assert got[i] in exact.touching(float(ra[i]), float(dec[i])), (ra[i], dec[i])


def test_poles_edges_and_wraps_get_a_pixel_that_touches_them_at_order_29(astropile_bin, exact):
    places = exact.positions()
    ra, dec = np.array(places).T
    for (a, d), pixel in zip(places, ours(astropile_bin, 29, ra, dec), strict=True):
        assert pixel in exact.touching(a, d), (a, d)


@pytest.mark.parametrize("order", [0, 3, 13, 20])
def test_close_to_poles_edges_and_wraps_pixels_are_exact(astropile_bin, exact, order):
    """Moved away from where they were by a ten-millionth of a degree, positions are on no edge of a pixel any more."""
    places = [(a % 360, d) for a, d in exact.positions() if abs(a) < 1e7 and abs(d) < 89.99]
    ra, dec = np.array(places).T
    ra, dec = (ra + 1.3e-7) % 360, dec + 0.7e-7
    got = ours(astropile_bin, order, ra, dec)
    want = [exact.exact_pixel(order, Decimal(a), Decimal(d)) for a, d in zip(ra.tolist(), dec.tolist(), strict=True)]
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got, hats.radec2pix(order, ra, dec))
    np.testing.assert_array_equal(got, astropy_pixels(order, ra, dec))


def edges():
    """Poles, the meridian and its wraps, corners and borders of base pixels."""
    cap = np.degrees(np.arcsin(2 / 3))
    ra = [0.0, 45.0, 90.0, 135.0, 180.0, 225.0, 270.0, 315.0, 359.9999999999999, 360.0, 1e-12]
    dec = [90.0, -90.0, 0.0, cap, -cap, 45.0, -45.0, 89.9999999, -89.9999999]
    a, d = np.meshgrid(ra, dec)
    return a.ravel(), d.ravel()


@pytest.mark.parametrize("order", [0, 1, 6, 12])
def test_a_position_on_an_edge_gets_a_pixel_that_touches_it(astropile_bin, order):
    ra, dec = edges()
    got = ours(astropile_bin, order, ra, dec)
    grid = astropy_healpix.HEALPix(nside=2**order, order="nested")
    for k, (pix, a, d) in enumerate(zip(got, ra, dec, strict=True)):
        # A circle around the position that is tiny beside a pixel meets just the pixels that touch it.
        step = np.linspace(0, 2 * np.pi, 32, endpoint=False)
        r = 1e-7
        near_dec = np.clip(d + r * np.sin(step), -90, 90)
        near_ra = np.where(abs(d) > 89, np.degrees(step), a + r * np.cos(step) / max(np.cos(np.radians(d)), 1e-3)) % 360
        around = set(grid.lonlat_to_healpix(near_ra * u.deg, near_dec * u.deg)) | set(
            grid.lonlat_to_healpix([a % 360] * u.deg, [d] * u.deg)
        )
        assert pix in around, f"position {k}: ra {a}, dec {d}: pixel {pix}, one of {around} touches it"


def test_right_ascension_wraps(astropile_bin, random_positions):
    ra, dec = random_positions[0][:1000], random_positions[1][:1000]
    np.testing.assert_array_equal(ours(astropile_bin, 10, ra, dec), ours(astropile_bin, 10, ra - 360, dec))
