"""Statistics, the table, the machine: what every benchmark ends with."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import random
import re
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DRAWS = 2000


def summary(values: Sequence[float]) -> dict[str, Any] | None:
    """Median, least, most, median absolute deviation, and a bootstrap interval (95 %) of the median."""
    if not values:
        return None
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(DRAWS))
    mid = statistics.median(values)
    return {
        "median": mid,
        "min": min(values),
        "max": max(values),
        "mad": statistics.median(abs(v - mid) for v in values),
        "low": medians[int(0.025 * DRAWS)],
        "high": medians[int(0.975 * DRAWS)],
        "n": len(values),
    }


def line(
    name: str,
    at_least: float,
    ratios: Sequence[float],
    invalid: Sequence[str] = (),
    unit: str = "ratio",
    at_most: float = 0.0,
) -> dict[str, Any]:
    """One line of the table, in its unit. Without valid values it has none, and is not ok; a goal of 0 is none."""
    s = None if invalid else summary(ratios)
    value = None if s is None else round(s["median"], 4)
    return {
        "name": name,
        "value": value,
        "unit": unit,
        **({"at_most": at_most} if at_most else {"at_least": at_least}),
        "ok": value is not None and value >= at_least and (not at_most or value <= at_most),
        "summary": s,
        "invalid": list(invalid),
    }


def goal(x: dict[str, Any]) -> float:
    """What a line has to reach, or not to pass; 0 is nothing."""
    return float(x.get("at_most") or x.get("at_least") or 0.0)


def show(
    lines: Sequence[dict[str, Any]],
    results: dict[str, list[dict[str, Any]]],
    invalid: dict[str, str],
    floor: dict[str, Any] | None,
) -> None:
    """Prints rates and peak memory of the cells, then the table."""
    wide = max(len(n) for n in [*results, "cell"])
    print(f"{'cell':{wide}}     GB/s    (least  most)   peak MiB  own MiB")
    for name in sorted(results, key=lambda n: -statistics.median(r["gbs"] for r in results[n])):
        rates = [r["gbs"] for r in results[name]]
        note = (
            "  INVALID"
            if name in invalid
            else "  cold: the disk was read"
            if any(r.get("cold") for r in results[name])
            else ""
        )
        rate = f"{statistics.median(rates):8.3f}  ({min(rates):6.3f} {max(rates):6.3f})" if max(rates) else " " * 25
        anon = max(r.get("peak_anon", 0) for r in results[name])
        own = f"{anon / 2**20:9.0f}" if anon else " " * 9
        print(f"{name:{wide}} {rate}  {max(r['peak'] for r in results[name]) / 2**20:8.0f}{own}{note}")
    if floor:
        print(
            f"\nA/A: two equal controls differ by a factor of {floor['min']:.2f} to {floor['max']:.2f} (median {floor['median']:.2f})"
        )
    wide = max(len(x["name"]) for x in lines)
    print(f"\n{'':{wide}}    value  unit    at least       95 % interval")
    for x in lines:
        want = (
            f"{x['unit']:7}{'<=' if 'at_most' in x else '  '}{goal(x):7.2f}" if goal(x) else f"{x['unit']:7}        -"
        )
        if x["invalid"]:
            print(f"{x['name']:{wide}}  INVALID  {want}       {x['invalid'][0][:100]}")
        elif x["summary"] is None:
            print(f"{x['name']:{wide}}     none  {want}")
        else:
            s = x["summary"]
            verdict = ("ok " if x["ok"] else "HIGH" if "at_most" in x else "LOW") if goal(x) else "   "
            by = f"  fastest: {x['fastest']}" if "fastest" in x else ""
            print(f"{x['name']:{wide}} {x['value']:8.3f}  {want}  {verdict:4} {s['low']:.3f} to {s['high']:.3f}{by}")
    asked = [x for x in lines if goal(x)]
    missed = [x for x in asked if not x["ok"]]
    print(f"\n{len(asked) - len(missed)} of {len(asked)} goals are met" + ("; missed:" if missed else ""))
    for x in missed:
        got = "no valid value" if x["value"] is None else f"{x['value']:.3f}"
        print(f"  {x['name']}: {got}, {'at most' if 'at_most' in x else 'at least'} {goal(x):g}")


def write(out: Path, name: str, lines: Sequence[dict[str, Any]], about: dict[str, Any], raw: dict[str, Any]) -> None:
    """Writes NAME.json (the table), NAME-machine.json and NAME-cells.json below the folder out."""
    out.mkdir(parents=True, exist_ok=True)
    keys = ("name", "value", "unit", "at_least", "at_most", "ok", "fastest")
    for file, content in {
        name: [{k: x[k] for k in keys if k in x} for x in lines],
        f"{name}-machine": about,
        f"{name}-cells": {**raw, "ratios": {x["name"]: x["summary"] for x in lines}},
    }.items():
        half = out / f".{file}.json"
        half.write_text(json.dumps(content, indent=1) + "\n")
        half.rename(out / f"{file}.json")
    print(f"\nwritten: {out / (name + '.json')}, {name}-machine.json, {name}-cells.json")


READERS = ("numpy", "pyarrow", "h5py", "hdf5plugin", "astropy", "datasets", "astropy-healpix")


def machine(work: Path, binary: Path, args: argparse.Namespace, packages: Sequence[str] = READERS) -> dict[str, Any]:
    """Versions and machine, without names of hosts, people or folders."""
    versions = {"python": platform.python_version()}
    for package in packages:
        versions[package] = importlib.metadata.version(package)
    versions["astropile"] = _said([str(binary), "--version"]).removeprefix("astropile version ").strip()
    versions["go"] = next((w for w in _said(["go", "version"]).split() if re.match(r"go\d", w)), "unknown")
    cpu = re.search(r"model name\s*: (.*)", _text("/proc/cpuinfo"))
    memory = dict(re.findall(r"(\w+):\s+(\d+) kB", _text("/proc/meminfo")))
    work.mkdir(parents=True, exist_ok=True)
    return {
        "versions": versions,
        "machine": {
            "arch": platform.machine(),
            "kernel": platform.release(),
            "cpu": cpu[1] if cpu else "unknown",
            "cpus": os.cpu_count(),
            "cpus_allowed": len(os.sched_getaffinity(0)),
            "cgroup_cpu": _text("/sys/fs/cgroup/cpu.max").strip() or None,
            "cgroup_memory": _text("/sys/fs/cgroup/memory.max").strip() or None,
            "memory_bytes": int(memory.get("MemTotal", 0)) * 1024,
            "last_level_cache": _text("/sys/devices/system/cpu/cpu0/cache/index3/size").strip() or None,
            "filesystem": _filesystem(work),
        },
        "options": {k: v for k, v in vars(args).items() if isinstance(v, (int, str, list))},
        "load_at_start": os.getloadavg(),
    }


def _filesystem(folder: Path) -> str | None:
    """Kind of the filesystem that holds the folder."""
    best, kind = "", None
    for mount in _text("/proc/self/mounts").splitlines():
        _, at, name, *_ = mount.split()
        if folder.is_relative_to(at) and len(at) >= len(best):
            best, kind = at, name
    return kind


def _said(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
