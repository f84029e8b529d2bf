"""Hugging Face `datasets`, shuffled: map-style, streaming from Parquet, or `to_iterable_dataset`.

Images are Array3D and come in numpy format, the documented way of arrays. The others come in Arrow format, the fastest
there is, and become numpy without Python lists; the numpy format turns doubles into floats and ragged rows into objects.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"

import common
import datasets
import workloads

# A stream of Parquet sleeps 5 s before its epoch ends, for threads that a local file does not have.
datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0

ROW_BY_ROW = True
BUFFER = 1000  # examples that streams shuffle in; what the documentation starts with
SHARDS = 64


def write(workload: workloads.Workload, rows, out: Path) -> None:
    """Four Parquet files by `datasets`' own writer."""
    if workload.name == "images":
        import prepare

        prepare.parquet(rows.folder / "image_array.npy", out, "image_array")
        return
    out.mkdir()
    for k in range(4):
        part = workloads.to_arrow(rows, workload, len(rows) * k // 4, len(rows) * (k + 1) // 4)
        datasets.Dataset(part).to_parquet(str(out / f"{k}.parquet"))


def load(folder: Path, store: Path | None) -> datasets.Dataset | datasets.IterableDataset:
    """The split `train` of a folder of Parquet: map-style with its Arrow files in ``store``, else streaming."""
    files = sorted(str(p) for p in folder.glob("*.parquet"))
    more = {"streaming": True} if store is None else {"cache_dir": str(store)}
    return datasets.load_dataset("parquet", data_files=files, split="train", **more)


def main() -> None:
    p = workloads.parser(__doc__)
    p.add_argument("folder", type=Path)
    p.add_argument("--how", choices=["map", "stream", "iterable"], required=True)
    p.add_argument("--cache", type=Path)
    args = p.parse_args()
    w = workloads.WORKLOADS[args.workload]
    numpy = w.name == "images"
    d = load(args.folder, None if args.how == "stream" else args.cache).with_format("numpy" if numpy else "arrow")

    def batches(seed: int) -> Iterator[workloads.Batch]:
        if args.how == "map":
            e = d.shuffle(seed=seed, keep_in_memory=True)
        elif args.how == "iterable":
            e = d.to_iterable_dataset(num_shards=SHARDS).shuffle(seed=seed, buffer_size=BUFFER)
        else:
            e = d.shuffle(seed=seed, buffer_size=BUFFER)
        return (dict(b) if numpy else workloads.from_arrow(b, w) for b in e.iter(w.batch))

    common.report(workloads.measure(args, w, workloads.shuffled(batches, args.seed)))
    sys.stdout.flush()
    os._exit(0)  # a stream that is left has threads that abort at exit


if __name__ == "__main__":
    main()
