"""pyarrow: `ParquetFile.iter_batches` to numpy, in order, from nested lists or fixed-size lists."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def to_numpy(column: pa.Array, shape: tuple[int, ...]) -> np.ndarray:
    """The rows of a column of nested lists as an array [n, *shape], without Python lists."""
    n = len(column)
    while isinstance(column, pa.ExtensionArray):
        column = column.storage
    while (
        pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)
    ):
        column = column.flatten()
    return column.to_numpy(zero_copy_only=False).reshape(n, *shape)


def main() -> None:
    p = common.parser(__doc__)
    p.add_argument("files", type=Path, nargs="+")
    p.add_argument("--column", default="image_array")
    args = p.parse_args()

    def batches():
        for f in args.files:
            for b in pq.ParquetFile(f).iter_batches(args.batch, columns=[args.column]):
                yield to_numpy(b.column(0), args.shape)

    common.report(common.measure(args, batches))


if __name__ == "__main__":
    main()
