"""Tables in and out: every format, whatever is wrong in one sentence, batches, formulas."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localconformal.io.tables import (
    TableError,
    harmless,
    read_table,
    table_batches,
    table_columns,
    write_table,
)

MIXED = pd.DataFrame(
    {
        "number": [1.5, np.nan, -2.0],
        "whole": [1, 2, 3],
        "flag": [True, False, True],
        "text": ["a", None, "ü, \n quoted"],
        "time": pd.to_datetime(["2020-01-01 10:00", "2020-01-02 11:30", None]),
    }
)
TYPES = {"number": "number", "whole": "number", "text": "text", "time": "time"}


def save(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def save_mixed(path):
    MIXED.to_csv(path, index=False) if "csv" in path.name else MIXED.to_parquet(path)
    return path


def refused(words, read, *args, **params):
    with pytest.raises(TableError) as caught:
        read(*args, **params)
    text = str(caught.value)
    assert words in text
    assert "\n" not in text
    assert len(text) < 500


def read_batches(path, **types):
    return list(table_batches(path, types))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "T.PARQUET"])
def test_every_format_gives_the_same_table(tmp_path, name):
    table = read_table(save_mixed(tmp_path / name))
    assert list(table) == list(MIXED)
    np.testing.assert_array_equal(table["number"], MIXED["number"])
    assert table["whole"].dtype == np.int64
    assert table["flag"].astype(bool).tolist() == [True, False, True]
    assert table["text"].fillna("").tolist() == MIXED["text"].fillna("").tolist()
    assert table["time"].dt.minute.tolist()[:2] == [0, 30]
    assert table["time"].isna().tolist() == [False, False, True]
    assert list(read_table(tmp_path / name, columns=["text", "number"])) == ["text", "number"]


def test_names_and_types_of_columns_in_csv(tmp_path):
    late = "\n".join(["house size", *["1"] * 100_000, "x"])
    table = read_table(save(tmp_path / "late.csv", late))
    assert table["house size"].iloc[[0, -1]].tolist() == ["1", "x"]
    table = read_table(save(tmp_path / "n.csv", ",Unnamed: 7,c\n1,2,3\n"))
    assert table.to_dict("records") == [{"Unnamed: 0": 1, "Unnamed: 7": 2, "c": 3}]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_texts_of_every_kind_in_parquet_are_read_as_they_are(tmp_path, kind):
    values, path = ["x", None, "y", "x", ""], tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": pa.array(values).cast(kind)}), path)
    for frame in (read_table(path), *read_batches(path, a="text")):
        assert [v if isinstance(v, str) else None for v in frame["a"]] == values


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "is empty"),
        ("header.csv", b"a,b\n", "no rows"),
        ("blank.csv", b"\n\n\n", "no header"),
        ("semicolons.csv", b"a;b\n1,5;2,5\n", "semicolons"),
        ("tabs.csv", b"a\tb\n1\t2\n", "tabs"),
        ("latin.csv", "café,b\n1,1\n".encode("latin-1"), "UTF-8"),
        ("late.csv", ("a,b\n" + "x,1\n" * 50_000 + "é,1\n").encode("latin-1"), "UTF-8"),
        ("utf-16.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-8"),
        ("repeated.csv", b"a,b,a\n1,2,3\n", "'a'"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", "Expected 2 columns, got 3"),
        ("suffix.txt", b"a,b\n1,2\n", "'.txt'"),
        ("plain.csv.gz", b"a,b\n1,2\n", "gzip"),
        ("cut.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 999)[:-20], "ended before"),
        ("csv.parquet", b"a,b\n1,2\n", "not a complete Parquet file"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_each_bad_file_is_one_sentence(tmp_path, name, content, words):
    refused(words, read_table, save(tmp_path / name, content))


def test_a_damaged_parquet_file_is_read_or_refused(tmp_path):
    path, rng = tmp_path / "t.parquet", np.random.default_rng(0)
    pd.DataFrame({"a": range(2000), "b": np.linspace(0, 1, 2000)}).to_parquet(path)
    whole = path.read_bytes()
    for share in (0.02, 0.5, 0.99):
        save(path, whole[: int(share * len(whole))])
        refused("not a complete Parquet file", read_table, path)
        refused("not a complete Parquet file", read_batches, path, a="number")
    for place, bit in rng.integers([0, 0], [len(whole), 8], size=(100, 2)):
        content = bytearray(whole)
        content[place] ^= 1 << int(bit)
        try:
            assert len(read_table(save(path, bytes(content)))) == 2000
        except TableError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_columns_that_cannot_be_had(tmp_path):
    refused("does not exist", read_table, tmp_path / "none.csv")
    path = save(tmp_path / "t.csv", "price,Size\n1,abc\n")
    refused("did you mean 'price'", read_table, path, columns=["prise"])
    refused("did you mean 'Size'", read_table, path, columns=["size"])
    refused("it has 'price', 'Size'", read_table, path, columns=["weather"])
    refused("no column 'b'", table_batches, path, {"b": "number"})
    refused("the text 'abc' in column 'Size' (row 0", read_batches, path, Size="number")
    wide = ",".join(f"c{j}" for j in range(10_000)) + "\n" + ",".join("1" * 10_000) + "\n"
    refused("10,000 columns", read_table, save(tmp_path / "w.csv", wide))
    assert read_table(tmp_path / "w.csv", columns=["c9999"]).shape == (1, 1)
    path = tmp_path / "b.parquet"
    half = pa.array([b"\xed\xa0\x80", b"ok"]).cast(pa.string(), safe=False)
    pq.write_table(pa.table({"a": ["1", "abc"], "image": [b"1", b"2"], "half": half}), path)
    refused("'image'", read_table, path, columns=["a", "image"])
    refused("'a'", read_batches, path, a="number")
    refused("UTF8", read_table, path, columns=["half"])
    refused("UTF8", read_batches, path, half="text")
    assert list(read_table(path, columns=["a"])) == ["a"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_batches_are_the_table_with_types_that_never_change(tmp_path, suffix, rows):
    batches = list(table_batches(save_mixed(tmp_path / f"t.{suffix}"), TYPES, rows=rows))
    assert [len(b) for b in batches] == [min(rows, 3 - i) for i in range(0, 3, rows)]
    assert len({tuple(map(str, b.dtypes)) for b in batches}) == 1
    whole = pd.concat(batches)
    assert whole.index.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(whole["number"], MIXED["number"])
    assert whole["text"].tolist()[::2] == MIXED["text"].tolist()[::2]
    assert whole["time"].isna().tolist() == [False, False, True]


def test_names_of_rows_in_csv_are_the_texts_that_were_written(tmp_path):
    written = ["007", "-96", "", "9007199254740993", "=cmd", "0x10", "1.50"]
    path = save(tmp_path / "t.csv", "a,b\n" + "".join(f"{name},1\n" for name in written))
    batches = pd.concat(table_batches(path, {"a": "name"}, rows=2))
    for frame in (read_table(path, names=["a"]), batches):
        assert ["" if pd.isna(value) else value for value in frame["a"]] == written


@pytest.mark.parametrize("kind", [pa.int64(), pa.int8(), pa.float64(), pa.decimal128(38, 0)])
def test_names_of_rows_in_parquet_have_their_type_in_what_is_written(tmp_path, kind):
    path, made = tmp_path / "t.parquet", tmp_path / "made.parquet"
    names = pa.array([-96, None, 7], pa.int64()).cast(kind)
    pq.write_table(pa.table({"a": names}), path)
    frames = [read_table(path, names=["a"]), *table_batches(path, {"a": "name"}, rows=1)]
    write_table(frames, made)
    assert pq.read_table(made)["a"].combine_chunks() == pa.concat_arrays([names, names])
    write_table(frames, tmp_path / "made.csv")
    assert (tmp_path / "made.csv").read_text().splitlines() == ['"a"', *["-96", "", "7"] * 2]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "parts"
    (made / "deep").mkdir(parents=True)
    table = pd.DataFrame({"a": range(900), "b": [None] * 500 + [0.5] * 400, "c": "x"})
    table[:500].to_parquet(made / "1.parquet", row_group_size=70, index=False)
    table[:0].to_parquet(made / "2.pq", index=False)
    table[500:].to_parquet(made / "deep" / "3.parquet", index=False)
    (made / "_metadata.parquet").write_text("not a table")
    return made


def test_the_files_of_a_folder_are_one_table_in_the_order_of_their_names(folder):
    assert table_columns(folder) == ["a", "b", "c"]
    whole = read_table(folder, columns=["b", "a"])
    assert (list(whole), whole["a"].tolist()) == (["b", "a"], list(range(900)))
    # All of the first file's values are missing: it has no type for them.
    assert whole["b"].isna().sum() == 500
    batches = list(table_batches(folder, {"a": "number", "b": "number"}, rows=400))
    assert [len(batch) for batch in batches] == [400, 400, 100]
    together = pd.concat(batches)
    assert together.index.tolist() == together["a"].tolist() == list(range(900))


def test_what_is_wrong_with_a_folder_is_one_sentence(folder, tmp_path):
    last = folder / "4.parquet"
    pd.DataFrame({"a": ["x"], "b": [1.0], "c": "x"}).to_parquet(last)
    refused("cannot be read as one table", read_table, folder)
    refused("cannot be read as one table", read_batches, folder, b="number")
    pd.DataFrame({"a": [1], "c": "x"}).to_parquet(last)
    refused("4.parquet has no column 'b'", table_columns, folder)
    save(last, (folder / "1.parquet").read_bytes()[:-99])
    refused("4.parquet is not a complete Parquet file", table_columns, folder)
    (tmp_path / "none").mkdir()
    save_mixed(tmp_path / "none" / "t.csv")
    refused("expected a folder of Parquet files", read_table, tmp_path / "none")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_batches_stand_below_each_other_and_keep_every_digit(tmp_path, suffix):
    path, names = tmp_path / f"t.{suffix}", ["=cmd()", "-1+1", "Ann"]
    frame = pd.DataFrame({"row": range(3), "=name": names, "lower": [-1.5, 1 / 3, -np.inf]})
    assert write_table([frame, frame[:1]], path) == 4
    table = read_table(path)
    assert table["row"].tolist() == [0, 1, 2, 0]
    np.testing.assert_array_equal(table["lower"][:3], frame["lower"])
    # A text is no formula in CSV, and untouched in Parquet.
    mark = "'" if suffix == "csv" else ""
    assert table[f"{mark}=name"].tolist()[:3] == [f"{mark}=cmd()", f"{mark}-1+1", "Ann"]
    refused("'.xlsx'", write_table, [frame], tmp_path / "t.xlsx")
    assert list(tmp_path.iterdir()) == [path]


def test_an_apostrophe_stands_before_formulas_and_nothing_else():
    for cell in ("=1", "+1", "-x", "@a", " =1", "\ufeff=1", "\t=1", "＝1", "\tplain"):
        assert harmless(cell) == f"'{cell}"
    for cell in ("a=b", "1-2", "(=)", "Anna", "", "é+", "'=1", None, -1.5):
        assert harmless(cell) is cell
