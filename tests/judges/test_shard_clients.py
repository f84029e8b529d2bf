"""Other readers of Parquet judge the shards we write: every value of every kind, type, layout and codec, bit for bit.

The Go test TestWriteJudgeFiles writes the shards, and beside them the raw values and a description. All clients are
compared through Arrow, because some cast in their own formats.
"""

import itertools
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

PROJECT = pathlib.Path(__file__).resolve().parents[2]
NUMPY = {"bool": "u1", "float16": "<f2", "complex64": "<f4", "complex128": "<f8"}


@pytest.fixture(scope="session")
def judged(tmp_path_factory):
    """The folder of shards and raw values, and their description."""
    folder = os.environ.get("ASTROPILE_JUDGE_FILES")
    if folder is None:
        folder = str(tmp_path_factory.mktemp("judge"))
        subprocess.run(
            ["go", "test", "-count=1", "-run", "^TestWriteJudgeFiles$", "./internal/shard"],
            cwd=PROJECT,
            env={**os.environ, "ASTROPILE_JUDGE_DIR": folder},
            check=True,
        )
    folder = pathlib.Path(folder)
    return folder, json.loads((folder / "judge.json").read_text())


def dtype_of(column):
    name = column["dtype"]
    return np.dtype(NUMPY.get(name, name))


class Expected:
    """The raw parts of a column as the writer was given them."""

    def __init__(self, folder, column):
        self.column = column
        self.kind = column["type"]
        read = lambda key, dtype: np.fromfile(folder / column[key], dtype) if column.get(key) else None  # noqa: E731
        self.valid = read("valid", "u1")
        self.offsets = read("offsets", "<i8")
        self.str_offsets = read("str_offsets", "<i8")
        self.parts = [Expected(folder, part) for part in column.get("parts", [])]
        if self.kind == "struct":
            return
        if column["dtype"] == "string":
            self.data = (folder / column["data"]).read_bytes()
        else:
            self.data = read("data", dtype_of(column))


def one_array(column):
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column


def check_elements(array, expected, data, where):
    """Elements without nulls: bits are equal, except that a half float may arrive as a wider one."""
    assert array.null_count == 0, where
    want = np.asarray(data)
    name = expected.column["dtype"]
    if name == "bool":
        assert pa.types.is_boolean(array.type), (where, array.type)
        got = np.asarray(array.cast(pa.uint8()))
    else:
        got = array.to_numpy(zero_copy_only=False)
    if name == "float16" and got.dtype != np.float16:
        assert got.dtype == np.float32, (where, got.dtype)
        want = want.astype(np.float32)
    assert got.dtype == want.dtype, (where, got.dtype, want.dtype)
    assert len(got) == len(want), where
    assert got.tobytes() == want.tobytes() or np.array_equal(got, want, equal_nan=name.startswith("float16")), where


def check_text(array, data, offsets, where):
    got = array.to_pylist()
    want = [data[a:b].decode() for a, b in itertools.pairwise(offsets)]
    assert got == want, where


def flatten(array):
    """The elements of lists, whatever kind of list."""
    return array.flatten()


def is_list(kind):
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def check_column(array, expected, where):
    array = one_array(array)
    column = expected.column
    where = (*where, column["name"])
    valid = np.asarray(pc.is_valid(array))
    want_valid = np.ones(len(array), bool) if expected.valid is None else expected.valid.astype(bool)
    assert np.array_equal(valid, want_valid), where
    if expected.kind == "struct":
        for part in expected.parts:
            # The judge sees lengths and elements; a null group has none.
            member = pc.struct_field(array, column["members"].index({k: part.column[k] for k in column["members"][0]}))
            check_list(member, part, where)
        return
    if expected.kind == "list":
        check_list(array, expected, where)
        return
    if expected.kind == "tensor":
        shape = (column["shape"] or []) + ([2] if column["dtype"].startswith("complex") else [])
        rows = len(array)
        for side in shape:
            lengths = np.asarray(pc.list_value_length(array))
            assert (lengths == side).all(), where
            array = flatten(array)
        assert len(array) == rows * int(np.prod(shape)), where
        check_elements(array, expected, expected.data, where)
        return
    if column["dtype"] == "string":
        texts = [expected.data[a:b].decode() for a, b in zip(expected.offsets[:-1], expected.offsets[1:], strict=True)]
        want = [text if ok else None for text, ok in zip(texts, want_valid, strict=True)]
        assert array.to_pylist() == want, where
        return
    check_elements(array.drop_null(), expected, expected.data[want_valid], where)


def check_list(array, expected, where):
    where = (*where, expected.column["name"])
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0))
    assert np.array_equal(lengths, np.diff(expected.offsets)), where
    elements = flatten(array)
    if expected.column["dtype"] == "string":
        check_text(elements, expected.data, expected.str_offsets, where)
    else:
        check_elements(elements, expected, expected.data, where)


def check_table(table, folder, shard, client):
    assert table.num_rows == shard["rows"]
    names = [column["name"] for column in shard["columns"]]
    assert list(table.column_names) == names
    for column in shard["columns"]:
        check_column(table.column(column["name"]), Expected(folder, column), (client, shard["file"]))


def each(judged):
    folder, shards = judged
    return [(folder, shard, str(folder / shard["file"])) for shard in shards]


def test_pyarrow_with_page_checksums(judged):
    for folder, shard, path in each(judged):
        file = pq.ParquetFile(path, page_checksum_verification=True)
        check_table(file.read(), folder, shard, "pyarrow")
        for field in file.schema_arrow:
            want = next(c for c in shard["columns"] if c["name"] == field.name)
            if want["type"] == "tensor":
                assert json.loads(field.metadata[b"shape"]) == (want["shape"] or [])
                assert field.metadata[b"dtype"].decode() == want["dtype"]
                assert not field.nullable


def test_pyarrow_refuses_a_flipped_bit_in_every_page(judged):
    folder, shards = judged
    shard = next(s for s in shards if s["file"] == "one_row.parquet")
    raw = bytearray((folder / shard["file"]).read_bytes())
    meta = pq.ParquetFile(folder / shard["file"]).metadata
    for k in range(meta.num_columns):
        chunk = meta.row_group(0).column(k)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        flipped = bytearray(raw)
        flipped[start + chunk.total_compressed_size - 1] ^= 1
        with pytest.raises(OSError):
            pq.ParquetFile(pa.BufferReader(bytes(flipped)), page_checksum_verification=True).read()


def test_pyarrow_reads_the_statistics_of_scalars(judged):
    for _folder, shard, path in each(judged):
        meta = pq.ParquetFile(path).metadata
        table = pq.read_table(path)
        for group in range(meta.num_row_groups):
            for k in range(meta.num_columns):
                chunk = meta.row_group(group).column(k)
                column = next(c for c in shard["columns"] if c["name"] == chunk.path_in_schema.split(".")[0])
                if column["type"] != "scalar":
                    assert chunk.statistics is None, chunk.path_in_schema
                    continue
                assert chunk.statistics is not None, chunk.path_in_schema
                if meta.num_row_groups > 1 or column["dtype"].startswith("float") or not chunk.statistics.has_min_max:
                    continue
                values = table.column(column["name"])
                assert chunk.statistics.null_count == values.null_count
                assert chunk.statistics.min == pc.min(values).as_py(), chunk.path_in_schema
                assert chunk.statistics.max == pc.max(values).as_py(), chunk.path_in_schema


def test_common_metadata_has_the_schema_of_the_shards(judged):
    for folder, _, path in each(judged):
        common = pq.ParquetFile(folder / (pathlib.Path(path).stem + ".common_metadata"))
        assert common.metadata.num_rows == 0
        shard = pq.ParquetFile(path)
        assert common.schema_arrow.equals(shard.schema_arrow, check_metadata=True)
        assert common.metadata.metadata[b"ARROW:schema"] == shard.metadata.metadata[b"ARROW:schema"]
        assert common.schema.equals(shard.schema)


def test_polars(judged):
    polars = pytest.importorskip("polars")
    for folder, shard, path in each(judged):
        check_table(polars.read_parquet(path).to_arrow(), folder, shard, "polars")


def test_duckdb(judged):
    duckdb = pytest.importorskip("duckdb")
    for folder, shard, path in each(judged):
        table = duckdb.sql(f"select * from '{path}'").to_arrow_table()
        check_table(table, folder, shard, "duckdb")


def test_pandas(judged):
    pandas = pytest.importorskip("pandas")
    for folder, shard, path in each(judged):
        frame = pandas.read_parquet(path, dtype_backend="pyarrow")
        table = pa.Table.from_arrays(
            [pa.chunked_array(frame[c].array.__arrow_array__()) for c in frame], names=list(frame.columns)
        )
        check_table(table, folder, shard, "pandas")


def test_datasets(judged, tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    for folder, shard, path in each(judged):
        loaded = datasets.load_dataset("parquet", data_files=path, split="train", cache_dir=str(tmp_path))
        check_table(loaded.with_format("arrow")[:], folder, shard, "datasets")


def test_datasets_streams(judged):
    datasets = pytest.importorskip("datasets")
    for folder, shard, path in each(judged):
        if shard["rows"] > 100_000:
            continue
        stream = datasets.load_dataset("parquet", data_files=path, split="train", streaming=True)
        tables = list(stream.with_format("arrow").iter(batch_size=1000))
        check_table(pa.concat_tables(tables), folder, shard, "datasets streaming")


def test_a_shard_is_a_number_of_pieces(judged):
    for _, shard, path in each(judged):
        assert os.path.getsize(path) % shard["piece"] == 0
