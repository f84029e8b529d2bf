"""Open, read and close every file of a folder, one after another: what reading thousands of small files costs at least."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("folder", type=Path)
    a = p.parse_args()
    files = [(str(f), f.stat().st_size) for f in sorted(a.folder.rglob("*")) if f.is_file()]
    seconds, size = [], 0
    for _ in range(2):  # the second finds all of them in memory
        size, begin = 0, time.perf_counter()
        for name, length in files:
            fd = os.open(name, os.O_RDONLY)
            size += len(os.read(fd, length))
            os.close(fd)
        seconds.append(time.perf_counter() - begin)
    common.report({"rows": len(files), "bytes": size, "seconds": seconds, "gbs": size / seconds[-1] / 1e9})


if __name__ == "__main__":
    main()
