"""Writes sky.fits, images with world coordinates of every kind the package reads, and sky.json: where astropy sees their middle.

Usage: sky.py FOLDER.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from astropy.coordinates import SkyCoord
from astropy.io import fits
from astropy.wcs import WCS

warnings.simplefilter("ignore")
out = Path(sys.argv[1])
rng = np.random.default_rng(3)
hdus, want = [fits.PrimaryHDU()], [None]


def header(proj, system="eq", swapped=False, **more):
    h = fits.Header()
    names = {"eq": ("RA", "DEC"), "gal": ("GLON", "GLAT")}[system]
    for i, name in enumerate(names):
        axis = 2 - i if swapped else i + 1
        h[f"CTYPE{axis}"] = name.ljust(5, "-") + proj if proj else name
    lat = more.pop("lat", rng.uniform(-89, 89))
    values = (rng.uniform(0, 360), lat)
    for i in (0, 1):
        axis = 2 - i if swapped else i + 1
        h[f"CRVAL{axis}"] = values[i]
        h[f"CRPIX{axis}"] = rng.uniform(-50, 90)
        h[f"CDELT{axis}"] = (rng.uniform(0.01, 0.2) if i else -rng.uniform(0.01, 0.2)) * (1 if proj else 0.01)
    h.update(more)
    return h


def add(h, shape=None):
    shape = shape or tuple(int(n) for n in rng.integers(5, 60, 2))
    hdu = fits.ImageHDU(np.zeros(shape, "u1"), header=h)
    w = WCS(hdu.header)
    pixel = np.array([[(n + 1) / 2 for n in shape[::-1]] + [1] * (w.naxis - len(shape))])
    world = w.all_pix2world(pixel, 1)[0]
    lon, lat = world[w.wcs.lng], world[w.wcs.lat]
    if not (np.isfinite(lon) and np.isfinite(lat)):
        return
    if w.wcs.ctype[w.wcs.lng].startswith("GLON"):
        c = SkyCoord(lon, lat, unit="deg", frame="galactic").icrs
        lon, lat = c.ra.deg, c.dec.deg
    hdus.append(hdu)
    want.append([float(lon) % 360, float(lat)])


for proj in ["TAN", "SIN", "ARC", "STG", "ZEA", "CAR", "NCP", ""]:
    for system in ["eq", "gal"]:
        for _ in range(8):
            lat = rng.uniform(-80, 80) if proj else rng.uniform(-40, 40)
            kw = {"lat": lat}
            if proj == "NCP":
                kw["lat"] = abs(lat) + 5
            add(header(proj, system, **kw))
            add(header(proj, system, swapped=True, **kw))
            h = header(proj, system, **kw)
            a = rng.uniform(0, 360)
            for i, row in enumerate([(np.cos(a), -np.sin(a)), (np.sin(a) * 1.1, np.cos(a))]):
                for j, v in enumerate(row):
                    h[f"PC{i + 1}_{j + 1}"] = v
            add(h)
            h = header(proj, system, **kw)
            for i in (1, 2):
                del h[f"CDELT{i}"]
                for j in (1, 2):
                    h[f"CD{i}_{j}"] = rng.normal() * (0.05 if proj else 0.0005)
            add(h)
            h = header(proj, system, **kw)
            h["CROTA2"] = rng.uniform(-180, 180)
            add(h)
        if proj and proj != "CAR":
            for lat in [90, -90, 0, 89.999]:
                if proj != "NCP" or lat:
                    add(header(proj, system, lat=lat))
            for pole in [0, 90, 180, -33.3]:
                add(header(proj, system, LONPOLE=pole))
    if proj == "SIN":
        for _ in range(8):
            add(header(proj, PV2_1=rng.uniform(-0.2, 0.2), PV2_2=rng.uniform(-0.2, 0.2)))
for lat in [0, 30, -30, 89, -89, 90, -90]:
    for pole in [None, 0, 180, 45, -120]:
        for lat_pole in [None, 90, -90]:
            h = header("CAR", lat=lat)
            if pole is not None:
                h["LONPOLE"] = pole
            if lat_pole is not None:
                h["LATPOLE"] = lat_pole
            try:
                WCS(h).wcs.set()
            except Exception:
                continue
            add(h)
for unit, factor in [("arcsec", 3600), ("arcmin", 60), ("rad", np.pi / 180)]:
    h = header("TAN")
    for i in (1, 2):
        h[f"CUNIT{i}"] = unit
        h[f"CRVAL{i}"] *= factor
        h[f"CDELT{i}"] *= factor
    add(h)
for radesys, equinox in [("ICRS", None), ("FK5", None), ("FK5", 2000.0), (None, 2000.0)]:
    h = header("TAN")
    if radesys:
        h["RADESYS"] = radesys
    if equinox:
        h["EQUINOX"] = equinox
    add(h)
for _ in range(5):
    h = header("TAN-SIP")
    h["A_ORDER"], h["B_ORDER"] = 3, 2
    for k, top in [("A", 3), ("B", 2)]:
        for p in range(top + 1):
            for q in range(top + 1 - p):
                if p + q > 1:
                    h[f"{k}_{p}_{q}"] = rng.normal() * 1e-4 ** (p + q - 1)
    add(h)
cube = header("TAN")
cube["CTYPE3"], cube["CRVAL3"], cube["CRPIX3"], cube["CDELT3"] = "FREQ", 1.4e9, 1.0, 1e6
add(cube, (4, 20, 30))
four = header("SIN")
four["WCSAXES"] = 4
four["CTYPE3"], four["CTYPE4"] = "FREQ", "STOKES"
add(four, (20, 30))
fits.HDUList(hdus).writeto(out / "sky.fits", overwrite=True)
(out / "sky.json").write_text(json.dumps(want))
