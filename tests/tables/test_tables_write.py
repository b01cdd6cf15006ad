import numpy as np
import pandas as pd
import pytest

from localconformal.io.tables import TableError, read_table, write_table

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
