import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localconformal.io.tables import (
    TableError,
    check_columns,
    read_table,
    table_batches,
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


def save(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def parquet(tmp_path):
    pd.DataFrame({"a": range(2000), "b": np.linspace(0, 1, 2000)}).to_parquet(
        tmp_path / "g.parquet"
    )
    return tmp_path / "g.parquet"


class TestRead:
    @pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "T.PARQUET"])
    def test_every_format_gives_the_same_table(self, tmp_path, name):
        path = tmp_path / name
        if "csv" in name:
            MIXED.to_csv(path, index=False)
        else:
            MIXED.to_parquet(path)
        table = read_table(path)
        assert list(table) == list(MIXED)
        np.testing.assert_array_equal(table["number"], MIXED["number"])
        assert table["whole"].dtype == np.int64
        assert table["flag"].astype(bool).tolist() == [True, False, True]
        assert table["text"].tolist()[2] == "ü, \n quoted"
        assert table["text"].isna().tolist() == [False, True, False]
        assert table["time"].dt.minute.tolist()[:2] == [0, 30]
        assert table["time"].isna().tolist() == [False, False, True]

    def test_columns_come_in_the_order_asked_for(self, tmp_path):
        MIXED.to_csv(tmp_path / "t.csv", index=False)
        assert list(read_table(tmp_path / "t.csv", columns=["text", "number"])) == [
            "text",
            "number",
        ]

    def test_types_are_found_from_all_rows(self, tmp_path):
        values = ["1"] * 100_000 + ["x"]
        table = read_table(
            save(tmp_path / "late.csv", "\n".join(["a,b", *(f"{v},1" for v in values)]))
        )
        assert table["a"].iloc[0] == "1"
        assert table["a"].iloc[-1] == "x"

    def test_nameless_and_numbered_columns_keep_apart(self, tmp_path):
        table = read_table(save(tmp_path / "n.csv", ",Unnamed: 7,c\n1,2,3\n"))
        assert list(table) == ["Unnamed: 0", "Unnamed: 7", "c"]
        assert table.iloc[0].tolist() == [1, 2, 3]

    def test_a_stored_index_is_the_index_again(self, tmp_path):
        MIXED.set_index(pd.Index(["x", "y", "z"], name="id")).to_parquet(tmp_path / "i.parquet")
        table = read_table(tmp_path / "i.parquet")
        assert table.index.tolist() == ["x", "y", "z"]
        assert table.index.name == "id"
        assert list(table) == list(MIXED)

    def test_kinds_that_only_parquet_has(self, tmp_path):
        frame = pd.DataFrame(
            {
                "label": pd.Categorical(["a", "b"]),
                "long": pd.to_timedelta(["90s", None]),
                "zone": pd.to_datetime(["2020-01-01", "2020-06-01"], utc=True),
            }
        )
        frame.to_parquet(tmp_path / "k.parquet")
        table = read_table(tmp_path / "k.parquet")
        assert table["label"].tolist() == ["a", "b"]
        np.testing.assert_array_equal(table["long"], [90.0, np.nan])
        assert table["zone"].dt.month.tolist() == [1, 6]


BAD_TEXTS = {
    "empty": ("e.csv", b"", "is empty"),
    "header only": ("h.csv", b"a,b\n", "no rows"),
    "blank": ("b.csv", b"\n\n\n", "no header"),
    "semicolons": ("s.csv", b"a;b\n1;2\n", "semicolons"),
    "semicolons and decimal commas": ("d.csv", b"a;b\n1,5;2,5\n", "semicolons"),
    "tabs": ("t.csv", b"a\tb\n1\t2\n", "tabs"),
    "latin-1 values": ("l.csv", "a,b\ncafé,1\n".encode("latin-1"), "UTF-8"),
    "latin-1 names": ("m.csv", "café,b\n1,1\n".encode("latin-1"), "UTF-8"),
    "latin-1 late": ("o.csv", ("a,b\n" + "x,1\n" * 50_000 + "é,1\n").encode("latin-1"), "UTF-8"),
    "utf-16": ("u.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-8"),
    "repeated names": ("r.csv", b"a,b,a\n1,2,3\n", "'a'"),
    "ragged": ("g.csv", b"a,b\n1,2\n1,2,3\n", "Expected 2 columns, got 3"),
    "no known suffix": ("x.txt", b"a,b\n1,2\n", "'.txt'"),
    "not gzip": ("z.csv.gz", b"a,b\n1,2\n", "gzip"),
    "cut gzip": ("c.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 999)[:-20], "ended before"),
    "CSV called Parquet": ("p.parquet", b"a,b\n1,2\n", "not a whole Parquet file"),
}


def assert_one_sentence(caught, words):
    text = str(caught.value)
    assert words in text
    assert "\n" not in text
    assert len(text) < 500


class TestBadFiles:
    @pytest.mark.parametrize("case", BAD_TEXTS)
    def test_each_is_one_sentence(self, tmp_path, case):
        name, content, words = BAD_TEXTS[case]
        with pytest.raises(TableError) as caught:
            read_table(save(tmp_path / name, content))
        assert_one_sentence(caught, words)

    @pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
    def test_a_truncated_parquet_file(self, tmp_path, parquet, share):
        whole = parquet.read_bytes()
        cut = save(tmp_path / "cut.parquet", whole[: int(share * len(whole))])
        for read in (read_table, lambda path: list(table_batches(path, {"a": "number"}))):
            with pytest.raises(TableError) as caught:
                read(cut)
            assert_one_sentence(caught, "not a whole Parquet file")

    def test_a_parquet_file_with_altered_bytes(self, tmp_path, parquet):
        content = bytearray(parquet.read_bytes())
        content[100:400] = b"\xff" * 300
        with pytest.raises(TableError):
            read_table(save(tmp_path / "altered.parquet", bytes(content)))

    def test_no_file_and_a_folder(self, tmp_path):
        with pytest.raises(TableError, match="does not exist"):
            read_table(tmp_path / "none.csv")
        with pytest.raises(TableError, match="is a folder"):
            read_table(tmp_path)

    def test_ten_thousand_columns_are_to_be_named(self, tmp_path):
        names = [f"c{j}" for j in range(10_000)]
        path = save(tmp_path / "w.csv", f"{','.join(names)}\n{','.join('1' * 10_000)}\n")
        with pytest.raises(TableError) as caught:
            read_table(path)
        assert_one_sentence(caught, "10,000 columns")
        assert read_table(path, columns=["c9999"]).shape == (1, 1)

    def test_names_are_looked_up_and_not_compared_one_by_one(self):
        class Name(str):
            __hash__ = str.__hash__
            compared = 0

            def __eq__(self, other):
                Name.compared += 1
                return str(self) == str(other)

        wanted, present = ([Name(f"c{i}") for i in range(300)] for _ in range(2))
        check_columns(wanted, present, "wide.parquet")
        assert Name.compared <= 2 * len(present)

    def test_a_column_that_is_not_there_suggests_one(self, tmp_path):
        path = save(tmp_path / "t.csv", "price,Size\n1,2\n")
        with pytest.raises(TableError, match="did you mean 'price'"):
            read_table(path, columns=["prise"])
        with pytest.raises(TableError, match="did you mean 'Size'"):
            read_table(path, columns=["size"])
        with pytest.raises(TableError, match="it has 'price', 'Size'"):
            read_table(path, columns=["weather"])

    def test_values_that_are_no_features(self, tmp_path):
        pd.DataFrame({"a": [1, 2], "image": [b"1", b"2"]}).to_parquet(tmp_path / "b.parquet")
        with pytest.raises(TableError) as caught:
            read_table(tmp_path / "b.parquet")
        assert_one_sentence(caught, "'image'")
        assert list(read_table(tmp_path / "b.parquet", columns=["a"])) == ["a"]


TYPES = {"number": "number", "whole": "number", "text": "text", "time": "time"}


class TestBatches:
    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    @pytest.mark.parametrize("rows", [1, 2, 3, 100])
    def test_batches_are_the_table_with_types_that_never_change(self, tmp_path, suffix, rows):
        path = tmp_path / f"t.{suffix}"
        MIXED.to_csv(path, index=False) if suffix == "csv" else MIXED.to_parquet(path)
        batches = list(table_batches(path, TYPES, rows=rows))
        assert [len(b) for b in batches] == [min(rows, 3 - i) for i in range(0, 3, rows)]
        assert len({tuple(map(str, b.dtypes)) for b in batches}) == 1
        whole = pd.concat(batches)
        assert whole.index.tolist() == [0, 1, 2]
        np.testing.assert_array_equal(whole["number"], MIXED["number"])
        assert whole["text"].tolist()[::2] == MIXED["text"].tolist()[::2]
        assert whole["time"].isna().tolist() == [False, False, True]

    def test_numbers_that_are_none_name_the_column(self, tmp_path):
        path = save(tmp_path / "n.csv", "z,a\nq,1\nq,abc\n")
        with pytest.raises(TableError) as caught:
            list(table_batches(path, {"a": "number"}))
        assert_one_sentence(caught, "the text 'abc' in column 'a' (row 1")
        pd.DataFrame({"a": ["1", "abc"]}).to_parquet(tmp_path / "n.parquet")
        with pytest.raises(TableError, match="'a'"):
            list(table_batches(tmp_path / "n.parquet", {"a": "number"}))

    def test_what_is_wrong_at_the_head_is_said_before_the_first_batch(self, tmp_path):
        with pytest.raises(TableError, match="no column 'b'"):
            table_batches(save(tmp_path / "t.csv", "a\n1\n"), {"b": "number"})
        with pytest.raises(TableError, match="no rows"):
            list(table_batches(save(tmp_path / "h.csv", "a,b\n"), {"b": "number"}))


def test_a_single_column_may_have_a_space_in_its_name(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("house size\n50\n80\n")
    assert list(read_table(path)) == ["house size"]


def test_large_numbers_are_texts_only_if_they_are_integers(tmp_path):
    path = tmp_path / "large.csv"
    path.write_text("a,b,c\n1234567890123456789012345,1e25,1\n,2.5,2\n")
    table = read_table(path)
    assert table["a"].iloc[0] == "1234567890123456789012345"
    assert table["a"].isna().tolist() == [False, True]
    assert table["b"].tolist() == [1e25, 2.5]


#: What a column of names is written as in CSV -> the values that are read.
WRITTEN_NAMES = {
    "integers": (["-96", "", "9007199254740993"], [-96, None, 9007199254740993]),
    "floats": (["-22.25", "1e3", " 7 "], [-22.25, 1000.0, 7.0]),
    "codes": (["007", "12", "+49"], ["007", "12", "+49"]),
    "padded numbers": (["-07", "008", "012"], [-7, 8, 12]),
    "texts": (["-96", "=cmd", "0x10"], ["-96", "=cmd", "0x10"]),
    "more than 64 bits": (["1", "2", str(10**24)], ["1", "2", str(10**24)]),
    "hexadecimal": (["0x10", "0x11", "0x12"], ["0x10", "0x11", "0x12"]),
}


@pytest.mark.parametrize("case", WRITTEN_NAMES)
def test_names_of_rows_in_csv_are_numbers_or_the_texts_that_were_written(tmp_path, case):
    written, expected = WRITTEN_NAMES[case]
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{name},1\n" for name in written))
    whole = read_table(path, exact=["a"])["a"]
    batches = [batch["a"] for batch in table_batches(path, {"a": "name"}, rows=2)]
    for column in (whole, pd.concat(batches)):
        found = [None if pd.isna(value) else value for value in column]
        assert found == expected
        assert [type(value) for value in found] == [type(value) for value in expected]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int8(), pa.float64(), pa.decimal128(38, 0)])
def test_names_of_rows_in_parquet_have_their_type_in_what_is_written(tmp_path, kind):
    path, made = tmp_path / "t.parquet", tmp_path / "made.parquet"
    names = pa.array([-96, None, 7], pa.int64()).cast(kind)
    pq.write_table(pa.table({"a": names}), path)
    frames = [read_table(path, exact=["a"]), *table_batches(path, {"a": "name"}, rows=1)]
    write_table(frames, made)
    assert pq.read_table(made)["a"].combine_chunks() == pa.concat_arrays([names, names])
    write_table(frames, tmp_path / "made.csv")
    assert (tmp_path / "made.csv").read_text().splitlines() == ['"a"', *["-96", "", "7"] * 2]
