"""Writes golden.json (pixels, centres, neighbours) and elementary.json, with judges that are not ours.

Pixels come from cdshealpix (which hats uses) and astropy-healpix, and from the definition of HEALPix worked out here in 50-digit
decimals: every pixel at order 29 that comes within 1e-6 of a pixel's width of the position. Needs numpy, astropy, astropy-healpix, cdshealpix.
With an argument, the path of a program that reads pairs of float64 and writes int64 (sky.Stream: `astropile healpix --order 29`), it compares a
million random positions instead: make.py [--compare "astropile healpix --order"].
"""

import json
import math
import os
import subprocess
import sys
from decimal import Decimal as D
from decimal import getcontext

import astropy.units as u
import cdshealpix
import numpy as np
from astropy.coordinates import Latitude, Longitude
from astropy_healpix import HEALPix

getcontext().prec = 50
PI = D("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
HERE = os.path.dirname(os.path.abspath(__file__))


def sin(x):
    """Sine of a Decimal in radians."""
    x = x % (2 * PI)
    total, term, k = D(0), x, 1
    while abs(term) > D(10) ** -60:
        total += term
        term = -term * x * x / ((k + 1) * (k + 2))
        k += 2
    return total


def exact_pixel(order, ra, dec):
    """Pixel of a position given as Decimals, ra in degrees within [0, 360)."""
    ns = 1 << order
    q, t = int(ra // 90), (ra % 90) / 90
    z = sin(dec * PI / 180)
    if abs(z) <= D(2) / 3:
        h = z * 3 / 4
        up, down = int(ns * (D("0.5") + t - h)), int(ns * (D("0.5") + t + h))
        fu, fd = up // ns, down // ns
        if fu == fd:
            face = 4 + (q + fu) % 4
        elif fu < fd:
            face = (q + fu) % 4
        else:
            face = 8 + (q + fd) % 4
        x, y = down % ns, ns - 1 - up % ns
    else:
        s = max(3 * (1 - abs(z)), D(0)).sqrt()
        a, b = min(int(ns * t * s), ns - 1), min(int(ns * (1 - t) * s), ns - 1)
        face, x, y = (q, ns - 1 - b, ns - 1 - a) if z > 0 else (8 + q, a, b)
    pix = face
    for bit in range(order - 1, -1, -1):
        pix = pix * 4 + (y >> bit & 1) * 2 + (x >> bit & 1)
    return pix


def touching(ra, dec):
    """Order-29 pixels within 1e-6 of a pixel's width of a position given as floats in degrees."""
    ra, dec = D(ra) % 360, D(dec)
    ra = ra + 360 if ra < 0 else ra
    step = D("1.1e-13")
    found = set()
    for i in range(-1, 2):
        d = dec + i * step
        if abs(d) > 90:
            d = D(90).copy_sign(d)
        cos = max(sin((90 - abs(d)) * PI / 180), D("1e-40"))
        if 90 - abs(d) <= step:
            found |= {exact_pixel(29, D(45 + 90 * k), d) for k in range(4)}
            continue
        for j in range(-1, 2):
            r = (ra + j * step / cos) % 360
            found.add(exact_pixel(29, r + 360 if r < 0 else r, d))
    return sorted(found)


def judges(order, ra, dec):
    ra, dec = np.asarray(ra), np.asarray(dec)
    cds = cdshealpix.lonlat_to_healpix(Longitude(ra, u.deg), Latitude(dec, u.deg), order).astype(np.int64)
    ast = HEALPix(nside=1 << order, order="nested").lonlat_to_healpix(ra * u.deg, dec * u.deg)
    return cds, ast


def positions():
    rng = np.random.default_rng(20240229)
    pts = []
    for _ in range(200):
        pts.append((rng.uniform(0, 360), math.degrees(math.asin(rng.uniform(-1, 1)))))
    for _ in range(40):  # close to the poles
        pts.append((rng.uniform(0, 360), math.copysign(90 - 10 ** rng.uniform(-14, 0), rng.uniform(-1, 1))))
    for ra in (0.0, 45.0, 90.0, 123.4, 180.0, 270.0, 360.0, -0.0, -90.0, 720.5):
        pts += [(ra, 90.0), (ra, -90.0), (ra, 0.0)]
    turn = math.degrees(math.asin(2 / 3))  # where belt and caps meet
    for ra in (0.0, 22.5, 45.0, 90.0, 180.0, 269.99999999999994, 315.0):
        for d in (turn, np.nextafter(turn, 90), np.nextafter(turn, 0)):
            pts += [(ra, float(d)), (ra, -float(d))]
    for ra in (
        360 - 1e-13,
        -1e-13,
        -1e-300,
        5e-324,
        359.99999999999994,
        89.99999999999999,
        90.00000000000001,
        1e6,
        -1e6,
        1e17,
    ):
        for d in (-60.0, -10.0, 0.0, 5e-324, 35.0, 75.0):
            pts.append((ra, d))
    for order in (0, 1, 3, 8, 16, 29):  # corners and edges of pixels
        pix = rng.integers(0, 12 << (2 * order), 6)
        lon, lat = HEALPix(nside=1 << order, order="nested").boundaries_lonlat(pix, 2)
        pts += zip(lon.deg.ravel().tolist(), lat.deg.ravel().tolist())
    return [(float(a), float(b)) for a, b in pts]


def golden():
    pts = positions()
    ra, dec = (np.array(c) for c in zip(*pts))
    cds, ast = judges(29, ra, dec)
    out = {"positions": [], "pixels": []}
    for (a, d), c, s in zip(pts, cds, ast):
        out["positions"].append(
            {"ra": a.hex(), "dec": d.hex(), "touching": touching(a, d), "cds": int(c), "astropy": int(s)}
        )
    rng = np.random.default_rng(7)
    for order in (0, 1, 2, 5, 13, 20, 29):
        hp = HEALPix(nside=1 << order, order="nested")
        n = 12 << (2 * order)
        pix = np.arange(n) if n <= 48 else rng.integers(0, n, 40)
        lon, lat = hp.healpix_to_lonlat(pix)
        around = hp.neighbours(pix).T
        for p, a, d, nb in zip(pix, lon.deg, lat.deg, around):
            out["pixels"].append(
                {
                    "order": order,
                    "pixel": int(p),
                    "ra": float(a),
                    "dec": float(d),
                    "neighbours": sorted({int(x) for x in nb if x >= 0}),
                }
            )
    write("golden.json", out)
    print(len(out["positions"]), "positions,", len(out["pixels"]), "pixels")


def write(name, out):
    """JSON with one entry of each list a line."""
    with open(os.path.join(HERE, name), "w") as f:
        parts = [json.dumps(k) + ": [\n" + ",\n".join(json.dumps(v) for v in vs) + "\n]" for k, vs in out.items()]
        f.write("{\n" + ",\n".join(parts) + "\n}\n")


def elementary():
    """Correctly rounded values of the elementary functions, from 50-digit decimals."""
    rng = np.random.default_rng(11)
    out = {k: [] for k in ("sin", "cos", "exp", "log", "pow", "atan2")}

    def add(name, value, *args):
        out[name].append([float(a).hex() for a in args] + [float(value).hex()])

    getcontext().prec = 90
    for x in np.concatenate(
        [
            rng.uniform(-1, 1, 60),
            rng.uniform(-100, 100, 60),
            rng.uniform(-3e7, 3e7, 40),
            [1e-300, 1e10, 3.5e15, 11.0, 22.0, 355.0],
        ]
    ):
        x = float(x)
        turns = long_pi()
        add("sin", sin_wide(D(x), turns), x)
        add("cos", sin_wide(D(x) + turns / 2, turns), x)
    getcontext().prec = 60
    for x in np.concatenate([rng.uniform(-1, 1, 60), rng.uniform(-700, 700, 60), [1e-20, 709.7, -708.0]]):
        add("exp", D(float(x)).exp(), x)
    for x in np.concatenate(
        [rng.uniform(0.5, 2, 60), 10 ** rng.uniform(-300, 300, 60), 1 + 10 ** rng.uniform(-15, -1, 20), [5e-324]]
    ):
        add("log", D(float(x)).ln(), x)
    for _ in range(150):
        x, y = float(10 ** rng.uniform(-6, 6)), float(rng.uniform(-40, 40))
        add("pow", (D(y) * D(x).ln()).exp(), x, y)
    for _ in range(30):
        x, y = float(1 + rng.uniform(-1e-6, 1e-6)), float(rng.uniform(-1e8, 1e8))
        add("pow", (D(y) * D(x).ln()).exp(), x, y)
    for _ in range(150):
        y, x = (float(v) for v in rng.normal(size=2) * 10 ** rng.uniform(-4, 4, 2))
        add("atan2", atan2(D(y), D(x)), y, x)
    write("elementary.json", out)


def long_pi():
    """pi to the precision in force (Machin)."""
    getcontext().prec += 10

    def arccot(n):
        total, term, k = D(0), D(1) / n, 1
        while abs(term) > D(10) ** -(getcontext().prec + 5):
            total += term / k
            term, k = -term / (n * n), k + 2
        return total

    pi = 16 * arccot(5) - 4 * arccot(239)
    getcontext().prec -= 10
    return pi


def sin_wide(x, pi):
    x = x - 2 * pi * (x / (2 * pi)).to_integral_value()
    total, term, k = D(0), x, 1
    while abs(term) > D(10) ** -80 * max(abs(x), D(10) ** -400):
        total += term
        term = -term * x * x / ((k + 1) * (k + 2))
        k += 2
    return total


def atan2(y, x):
    if abs(y) > abs(x):
        return PI.copy_sign(y) / 2 - atan(x / y)
    a = atan(y / x)
    return a if x > 0 else a + PI.copy_sign(y)


def atan(t):
    n = 0
    while abs(t) > D("0.01"):
        t, n = t / (1 + (1 + t * t).sqrt()), n + 1
    total, term, k = D(0), t, 1
    while abs(term) > D(10) ** -70:
        total += term / k
        term, k = -term * t * t, k + 2
    return total * 2**n


def compare(command):
    rng = np.random.default_rng(int(os.environ.get("SEED", "1")))
    n = 1_000_000
    ra, dec = rng.uniform(0, 360, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))
    pairs = np.column_stack([ra, dec]).astype("<f8").tobytes()
    for order in (0, 3, 10, 20, 29):
        ours = np.frombuffer(
            subprocess.run([*command.split(), str(order)], input=pairs, stdout=subprocess.PIPE, check=True).stdout,
            "<i8",
        )
        cds, ast = judges(order, ra, dec)
        bad = np.flatnonzero((ours != cds) | (ours != ast))
        wrong = [i for i in bad if order == 29 and ours[i] not in touching(float(ra[i]), float(dec[i]))]
        exact = [i for i in bad if ours[i] != exact_pixel(order, D(float(ra[i])), D(float(dec[i])))]
        print(
            f"order {order}: {np.sum(ours != cds)} differ from cdshealpix, {np.sum(ours != ast)} from astropy-healpix, "
            f"{np.sum(cds != ast)} between them; of ours {len(exact)} differ from the exact pixel, {len(wrong)} by more than 1e-6 of a pixel"
        )


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--compare":
        compare(sys.argv[2])
    else:
        golden()
        elementary()
