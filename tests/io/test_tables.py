"""Tables in and out: every format, whatever is wrong in one sentence, batches, formulas."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localconformal.io.tables import (
    TableError,
    check_columns,
    column_names,
    harmless,
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

    def test_no_file(self, tmp_path):
        with pytest.raises(TableError, match="does not exist"):
            read_table(tmp_path / "none.csv")

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


def test_names_of_rows_in_csv_are_the_texts_that_were_written(tmp_path):
    written = ["007", "-96", "", "9007199254740993", "=cmd", "0x10", "1.50"]
    path = save(tmp_path / "t.csv", "a,b\n" + "".join(f"{name},1\n" for name in written))
    whole = read_table(path, names=["a"])["a"]
    batches = [batch["a"] for batch in table_batches(path, {"a": "name"}, rows=2)]
    for column in (whole, pd.concat(batches)):
        assert ["" if pd.isna(value) else value for value in column] == written


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


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_texts_of_every_kind_in_parquet_are_read_as_they_are(tmp_path, kind):
    values = ["x", None, "y", "x", ""]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": pa.array(values).cast(kind), "b": range(5)}), path)
    for frame in (read_table(path), next(table_batches(path, {"a": "text", "b": "number"}))):
        assert [v if isinstance(v, str) else None for v in frame["a"]] == values
        assert frame["b"].tolist() == [0, 1, 2, 3, 4]


def test_half_letters_in_parquet_are_one_sentence(tmp_path):
    bad = pa.array([b"\xed\xa0\x80", b"ok"] * 30).cast(pa.string(), safe=False)
    pq.write_table(pa.table({"a": bad}), tmp_path / "t.parquet")
    for read in (read_table, lambda path: next(table_batches(path, {"a": "text"}))):
        with pytest.raises(TableError) as caught:
            read(tmp_path / "t.parquet")
        assert_one_sentence(caught, "UTF8")


def read_or_refused(path):
    """The table of a file, or the sentence that refuses it."""
    try:
        return read_table(path)
    except TableError as error:
        return str(error)


def test_an_altered_parquet_file_is_read_or_refused(tmp_path, parquet):
    whole, rng = parquet.read_bytes(), np.random.default_rng(0)
    for place, bit in rng.integers([0, 0], [len(whole), 8], size=(100, 2)):
        content = bytearray(whole)
        content[place] ^= 1 << int(bit)
        found = read_or_refused(save(tmp_path / "altered.parquet", bytes(content)))
        assert "\n" not in found if isinstance(found, str) else len(found) == 2000


# ---- folders ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Three Parquet files, one of them without rows, and what is none."""
    made = tmp_path / "parts"
    (made / "deep").mkdir(parents=True)
    table = pd.DataFrame({"a": range(900), "b": [None] * 500 + [0.5] * 400, "c": "x"})
    table[:500].to_parquet(made / "1.parquet", row_group_size=70, index=False)
    table[:0].to_parquet(made / "2.pq", index=False)
    table[500:].to_parquet(made / "deep" / "3.parquet", index=False)
    (made / "_metadata.parquet").write_text("not a table")
    return made


def test_the_files_of_a_folder_are_one_table_in_the_order_of_their_names(folder):
    assert column_names(folder) == ["a", "b", "c"]
    whole = read_table(folder, columns=["b", "a"])
    assert list(whole) == ["b", "a"]
    assert whole["a"].tolist() == list(range(900))
    # All of the first file's values are missing: it has no type for them.
    assert whole["b"].isna().sum() == 500
    batches = list(table_batches(folder, {"a": "number", "b": "number"}, rows=400))
    assert [len(batch) for batch in batches] == [400, 400, 100]
    together = pd.concat(batches)
    np.testing.assert_array_equal(together.index, np.arange(900))
    np.testing.assert_array_equal(together["a"], np.arange(900))


def test_what_is_wrong_with_a_folder_is_one_sentence(folder, tmp_path):
    pd.DataFrame({"a": ["x"], "b": [1.0], "c": "x"}).to_parquet(folder / "4.parquet")
    for read in (read_table, lambda path: list(table_batches(path, {"b": "number"}))):
        with pytest.raises(TableError) as caught:
            read(folder)
        assert_one_sentence(caught, "cannot be read as one table")
    pd.DataFrame({"a": [1], "c": "x"}).to_parquet(folder / "4.parquet")
    with pytest.raises(TableError, match=r"4.parquet has no column 'b'"):
        column_names(folder)
    save(folder / "4.parquet", (folder / "1.parquet").read_bytes()[:-99])
    with pytest.raises(TableError, match=r"4.parquet is not a whole Parquet file"):
        column_names(folder)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="a folder of Parquet files was expected"):
        read_table(tmp_path / "none")


# ---- writing ------------------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {"row": [0, 1, 2], "name": ["=cmd()", "-1+1", "Ann"], "lower": [-1.5, 1 / 3, -np.inf]}
)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_batches_stand_below_each_other_and_keep_every_digit(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    assert write_table([FRAME, FRAME[:1]], path) == 4
    table = read_table(path)
    assert table["row"].tolist() == [0, 1, 2, 0]
    np.testing.assert_array_equal(table["lower"][:3], FRAME["lower"])


def test_a_text_is_no_formula_in_csv_and_untouched_in_parquet(tmp_path):
    for suffix in ("csv", "parquet"):
        write_table([FRAME.rename(columns={"name": "=name"})], tmp_path / f"t.{suffix}")
    cells = [
        cell.strip('"')
        for line in (tmp_path / "t.csv").read_text().splitlines()
        for cell in line.split(",")
    ]
    texts = [cell for cell in cells if not cell.lstrip("-").replace(".", "").isdigit()]
    assert not any(text.startswith(("=", "+", "@")) for text in texts)
    assert "'-1+1" in cells
    assert read_table(tmp_path / "t.parquet")["=name"].tolist() == FRAME["name"].tolist()


def test_other_suffixes_are_one_sentence(tmp_path):
    with pytest.raises(TableError, match=r"'.xlsx'"):
        write_table([FRAME], tmp_path / "t.xlsx")
    assert not list(tmp_path.iterdir())


def test_an_apostrophe_stands_before_formulas_and_nothing_else():
    for cell in ("=1", "+1", "-x", "@a", " =1", "\ufeff=1", "\t=1", "＝1", "\tplain"):
        assert harmless(cell) == f"'{cell}"
    for cell in ("a=b", "1-2", "(=)", "Anna", "", "é+", "'=1", None, -1.5):
        assert harmless(cell) is cell
