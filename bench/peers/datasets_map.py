"""Hugging Face `datasets`, map-style, numpy format, from its Arrow cache.

FOLDER is a folder of Parquet files, or a dataset repository with a card.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"

import common
import datasets


def load(folder: Path, cache: Path, column: str) -> datasets.Dataset:
    """The column of the folder's split `train`; makes the Arrow cache when it is not there."""
    if (folder / "README.md").exists():
        d = datasets.load_dataset(str(folder), split="train", cache_dir=str(cache))
    else:
        files = sorted(str(p) for p in folder.glob("*.parquet"))
        d = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(cache))
    return d.select_columns([column]).with_format("numpy")


def main() -> None:
    p = common.parser(__doc__)
    p.add_argument("folder", type=Path)
    p.add_argument("--cache", type=Path, required=True)
    p.add_argument("--column", default="image_array")
    p.add_argument("--shuffle", action="store_true")
    args = p.parse_args()
    d = load(args.folder, args.cache, args.column)

    def batches():
        e = d.shuffle(seed=args.seed, keep_in_memory=True) if args.shuffle else d
        return (b[args.column] for b in e.iter(args.batch))

    common.report(common.measure(args, batches))


if __name__ == "__main__":
    main()
