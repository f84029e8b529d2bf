"""Read the demo's releases as a training loop would, and draw a contact sheet of galaxies from the batches."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from PIL import Image

import astropile


def asinh_rgb(images: np.ndarray) -> np.ndarray:
    """Colour images as Lupton et al. (2004) stretch them: float32 [n, 4, H, W] (g, r, i, z) to uint8 [n, H, W, 3]."""
    r, g, b = images[:, 3], images[:, 1], images[:, 0]
    mean = (r + g + b) / 3
    stretch = np.arcsinh(12 * mean) / (12 * np.where(np.abs(mean) < 1e-6, 1e-6, mean))
    rgb = np.stack([r * stretch, g * stretch * 1.1, b * stretch * 1.6], axis=-1)
    return (255 * np.clip(0.06 + rgb * 0.9, 0, 1)).astype("u1")


def contact_sheet(images: np.ndarray, columns: int) -> Image.Image:
    """One picture of all images, row by row."""
    rgb = asinh_rgb(images)
    n, h, w, _ = rgb.shape
    rows = n // columns
    return Image.fromarray(
        rgb[: rows * columns].reshape(rows, columns, h, w, 3).swapaxes(1, 2).reshape(rows * h, columns * w, 3)
    )


def rate(ds: astropile.Dataset, column: str, batch: int, epochs: int) -> float:
    """GB/s of the values of one column, shuffled, every byte summed."""
    total, start = 0, time.perf_counter()
    for epoch in range(epochs):
        for b in ds.batches(batch, shuffle=True, seed=0, epoch=epoch):
            x = b[column]
            np.add.reduce(x.reshape(-1).view(np.int64))
            total += x.nbytes
    return total / (time.perf_counter() - start) / 1e9


def main() -> None:
    """Read galaxies, spectra, supernovae and cubes."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("releases", type=Path)
    p.add_argument("--sheet", type=Path, required=True)
    a = p.parse_args()

    with astropile.open(a.releases / "galaxies", columns=["object_id", "image_array", "z"]) as ds:
        first = next(iter(ds.batches(96, shuffle=True, seed=7)))
        contact_sheet(first["image_array"], 12).save(a.sheet)
        print(
            f"galaxies    {len(ds):6d} objects   batch {first['image_array'].shape} {first['image_array'].dtype}   shuffled {rate(ds, 'image_array', 128, 8):5.2f} GB/s, every byte summed"
        )
        one = ds.memmap("image_array")[17]
        assert np.array_equal(one, ds[17]["image_array"])
    with astropile.open(
        a.releases / "spectra", columns={"flux": "spectrum_flux", "wave": "spectrum_lambda", "z": "z"}
    ) as ds:
        b = next(iter(ds.batches(64, shuffle=True, seed=0)))
        peak = b["wave"][0][np.argmax(b["flux"][0])]
        print(
            f"spectra     {len(ds):6d} objects   batch {b['flux'].shape} {b['flux'].dtype}   brightest line of the first at {peak:.0f} Angstrom, z = {b['z'][0]:.3f}"
        )
    with astropile.open(a.releases / "supernovae", columns=["lightcurve", "obj_type"]) as ds:
        b = next(iter(ds.batches(32, shuffle=True, seed=0)))
        flux, kept = b["lightcurve"]["flux"].pad()
        print(
            f"supernovae  {len(ds):6d} objects   batch {flux.shape} {flux.dtype} padded from {int(kept.sum())} epochs   first is a {b['obj_type'][0]}"
        )
    with astropile.open(a.releases / "cubes", columns=["spaxels_flux"]) as ds:
        b = next(iter(ds.batches(8)))
        print(f"cubes       {len(ds):6d} objects   batch {b['spaxels_flux'].shape} {b['spaxels_flux'].dtype}")


if __name__ == "__main__":
    main()
