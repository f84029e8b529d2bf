"""Make up a small survey in the three families of HDF5 layout that published sets use.

Galaxies (columnar), spectra (columnar), supernovae (one object a file) and cubes (one group an object) over one patch of
sky, in folders ``healpix=N`` (order 4, NESTED). Everything follows from the seed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

import h5py
import numpy as np

BANDS = [b"des-g", b"des-r", b"des-i", b"des-z"]
SIDE = 96


def healpix(ra: np.ndarray, dec: np.ndarray) -> np.ndarray:
    """HEALPix pixels (order 4, NESTED) of positions in degrees; int64 of the same length."""
    pairs = np.stack([ra, dec], axis=1).astype("<f8").tobytes()
    out = subprocess.run(
        [os.environ["ASTROPILE_BIN"], "healpix", "--order", "4"], input=pairs, capture_output=True, check=True
    )
    return np.frombuffer(out.stdout, "<i8")


def positions(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n positions in degrees, uniform over a patch of 8 by 8 degrees."""
    return rng.uniform(146.0, 154.0, n), np.degrees(
        np.arcsin(rng.uniform(np.sin(np.radians(-2)), np.sin(np.radians(6)), n))
    )


def sersic(rng: np.random.Generator, n: int) -> np.ndarray:
    """n galaxies with a Sersic profile, a spiral pattern on the late ones, a PSF of Gaussian shape and noise; float32 [n, 4, 96, 96]."""
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32) - (SIDE - 1) / 2
    freq = np.fft.fftfreq(SIDE).astype(np.float32)
    out = np.empty((n, len(BANDS), SIDE, SIDE), np.float32)
    for i in range(n):
        late = rng.random() < 0.6
        index = rng.uniform(0.8, 1.6) if late else rng.uniform(2.5, 4.5)
        radius = rng.uniform(4, 14) if late else rng.uniform(2, 7)
        ratio, angle = rng.uniform(0.35, 1.0), rng.uniform(0, np.pi)
        u = (x - rng.normal()) * np.cos(angle) + (y - rng.normal()) * np.sin(angle)
        v = (-x * np.sin(angle) + y * np.cos(angle)) / ratio
        r = np.sqrt(u * u + v * v) + 1e-3
        b = 2 * index - 1 / 3
        profile = np.exp(-b * ((r / radius) ** (1 / index) - 1))
        arms = 1 + 0.7 * late * np.cos(2 * np.arctan2(v, u) + rng.choice([-1, 1]) * 3 * np.log(r / radius + 0.3))
        flux = 10 ** rng.uniform(1.8, 3.2) / profile.sum()
        colour = np.array([0.75, 1.0, 1.1, 1.15]) if late else np.array([0.35, 1.0, 1.5, 1.8])
        for k in range(len(BANDS)):
            sigma = rng.uniform(1.3, 2.0)
            psf = np.exp(-2 * (np.pi * sigma) ** 2 * (freq[:, None] ** 2 + freq[None, :] ** 2))
            image = np.fft.ifft2(np.fft.fft2(flux * colour[k] * profile * (arms if k < 3 else 1)) * psf).real
            out[i, k] = image + rng.normal(0, 0.02, image.shape)
    return out


def galaxies(root: Path, rng: np.random.Generator, n: int) -> None:
    """Columnar: images, masks and catalogue columns, axis 0 = object, LZF chunks as h5py guesses them."""
    ra, dec = positions(rng, n)
    pix = healpix(ra, dec)
    images = sersic(rng, n)
    for p in np.unique(pix):
        k = np.flatnonzero(pix == p)
        folder = root / "galaxies" / f"healpix={p}"
        folder.mkdir(parents=True)
        with h5py.File(folder / "001-of-001.hdf5", "w") as f:
            f["object_id"] = np.array([f"gal-{i:07d}" for i in k], dtype="S12")
            f["ra"], f["dec"], f["healpix"] = ra[k], dec[k], pix[k]
            f["ra"].attrs["unit"] = f["dec"].attrs["unit"] = "deg"
            f["mag_r"] = (22.5 - 2.5 * np.log10(images[k, 1].sum(axis=(1, 2)).clip(1e-3))).astype("f4")
            f["z"] = rng.gamma(2.0, 0.15, len(k)).astype("f4")
            f["image_band"] = np.array([BANDS] * len(k), dtype=h5py.string_dtype("utf-8", 5))
            chunked = {"chunks": True, "compression": "lzf", "maxshape": (None, len(BANDS), SIDE, SIDE)}
            f.create_dataset("image_array", data=images[k], **chunked)
            f["image_array"].attrs["unit"] = "nanomaggy"
            f.create_dataset("image_mask", data=np.abs(images[k]) > 8, **chunked)
            f["image_psf_fwhm"] = rng.uniform(3.0, 4.7, (len(k), len(BANDS))).astype("f4")
            f["image_scale"] = np.full((len(k), len(BANDS)), 0.262, "f4")


def spectra(root: Path, rng: np.random.Generator, n: int) -> None:
    """Columnar: spectra with emission lines on one wavelength grid, contiguous."""
    ra, dec = positions(rng, n)
    pix = healpix(ra, dec)
    wave = (3600 + 0.8 * np.arange(7781)).astype("f4")
    z = rng.gamma(2.0, 0.15, n).astype("f4")
    flux = rng.uniform(1, 12, n)[:, None] * (1 - 0.25 * (wave / 9800 - 0.6)[None, :])
    for line, strength in ((3727.0, 6), (4861.0, 3), (4959.0, 4), (5007.0, 12), (6563.0, 15), (6717.0, 2)):
        flux += rng.gamma(1.0, strength, n)[:, None] * np.exp(
            -0.5 * ((wave[None, :] - line * (1 + z[:, None])) / 2.2) ** 2
        )
    ivar = rng.uniform(0.5, 4, n)[:, None] * np.ones_like(wave)[None, :]
    flux += rng.normal(size=flux.shape) / np.sqrt(ivar)
    mask = rng.random(flux.shape) < 0.003
    for p in np.unique(pix):
        k = np.flatnonzero(pix == p)
        folder = root / "spectra" / f"healpix={p}"
        folder.mkdir(parents=True)
        with h5py.File(folder / "001-of-001.hdf5", "w") as f:
            f["object_id"] = 39_000_000_000_000_000 + 17 * k.astype("i8")
            f["ra"], f["dec"], f["z"] = ra[k], dec[k], z[k]
            f["zwarn"] = (rng.random(len(k)) < 0.05).astype("i4")
            f["spectrum_flux"], f["spectrum_ivar"] = flux[k].astype("f4"), ivar[k].astype("f4")
            f["spectrum_flux"].attrs["unit"] = "1e-17 erg / (s cm2 Angstrom)"
            f["spectrum_lambda"] = np.repeat(wave[None], len(k), axis=0)
            f["spectrum_lambda"].attrs["unit"] = "Angstrom"
            f["spectrum_mask"] = mask[k]


def supernovae(root: Path, rng: np.random.Generator, n: int) -> None:
    """One object a file: light curves in griz, padded with MJD -99."""
    ra, dec = positions(rng, n)
    pix = healpix(ra, dec)
    for i in range(n):
        counts = rng.integers(8, 45, 4)
        length = int(counts.max())
        time = np.full((4, length), -99, "f4")
        flux, error = np.zeros((4, length), "f4"), np.zeros((4, length), "f4")
        peak, rise, fall = rng.uniform(55000, 56000), rng.uniform(8, 20), rng.uniform(18, 45)
        for band, c in enumerate(counts):
            t = np.sort(rng.uniform(peak - 40, peak + 110, c))
            s = np.exp(-(t - peak) / fall) / (1 + np.exp(-(t - peak) / rise)) * rng.uniform(200, 900)
            e = rng.uniform(2, 12, c)
            time[band, :c], flux[band, :c], error[band, :c] = t, s + rng.normal(0, e), e
        folder = root / "supernovae" / f"healpix={pix[i]:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        with h5py.File(folder / f"example_SN{i:04d}.hdf5", "w") as f:
            f["object_id"], f["obj_type"] = f"SN{i:04d}", str(rng.choice(["SN Ia", "SN II", "SN Ibc"]))
            f["ra"], f["dec"], f["redshift"] = ra[i], dec[i], rng.uniform(0.01, 0.4)
            f["bands"] = np.array([b"g", b"r", b"i", b"z"], dtype="S1")
            f["time"], f["flux"], f["flux_err"] = time, flux, error


def cubes(root: Path, rng: np.random.Generator, n: int) -> None:
    """One group an object: a compound dataset of spaxels each, scalars as attributes."""
    ra, dec = positions(rng, n)
    spaxel = np.dtype([("flux", "f4", (60,)), ("ivar", "f4", (60,)), ("x", "i2"), ("y", "i2")])
    folder = root / "cubes"
    folder.mkdir(parents=True)
    with h5py.File(folder / "0001-of-0001.hdf5", "w") as f:
        f.attrs["survey"] = "demo"
        for i in range(n):
            g = f.create_group(f"{7443 + i // 8}-{12701 + i % 8}")
            g.attrs["object_id"], g.attrs["ra"], g.attrs["dec"], g.attrs["z"] = (
                g.name.strip("/"),
                ra[i],
                dec[i],
                rng.uniform(0.01, 0.15),
            )
            s = np.zeros(24 * 24, spaxel)
            s["x"], s["y"] = np.arange(576) % 24, np.arange(576) // 24
            s["flux"] = np.exp(-((s["x"] - 11.5) ** 2 + (s["y"] - 11.5) ** 2) / 50)[:, None] + rng.normal(
                0, 0.01, (576, 60)
            )
            s["ivar"] = 1e4
            g.create_dataset("spaxels", data=s, compression="gzip", shuffle=True)


def main() -> None:
    """Write the survey."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("folder", type=Path)
    p.add_argument("--galaxies", type=int, default=1200)
    p.add_argument("--spectra", type=int, default=500)
    p.add_argument("--supernovae", type=int, default=300)
    p.add_argument("--cubes", type=int, default=24)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    rng = np.random.default_rng(a.seed)
    galaxies(a.folder, rng, a.galaxies)
    spectra(a.folder, rng, a.spectra)
    supernovae(a.folder, rng, a.supernovae)
    cubes(a.folder, rng, a.cubes)


if __name__ == "__main__":
    main()
