"""Bad files: each one clear sentence, exit code 2, nothing written, by every command that reads."""

import numpy as np
import pytest
from table_files import QUICK, UNFITTABLE, refuse, write

from registry import homes


def with_bytes(content):
    return lambda path: path.write_bytes(content)


def truncated(path):
    homes().to_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def wide(path):
    names = ",".join(["price", "size", *(f"c{j}" for j in range(9_998))])
    path.write_text(f"{names}\n" + f"{','.join(['1'] * 10_000)}\n" * 3)


def with_column(**columns):
    return lambda path: write(homes().assign(**columns), path)


COLUMNS = list(homes(1))
NAMES = ",".join(COLUMNS).encode()
ROW = ",".join("1" for _ in COLUMNS).encode()
SOME_TEXTS = np.where(np.arange(400) % 9 == 0, "unknown", "1.5")


def delimited(by):
    return with_bytes((NAMES + b"\n" + ROW + b"\n").replace(b",", by))


#: what -> (file name, how it is made, words of the sentence); of every command that reads.
READ = {
    "missing file": ("t.csv", lambda path: None, "does not exist"),
    "empty file": ("t.csv", with_bytes(b""), "is empty"),
    "header only": ("t.csv", with_bytes(NAMES + b"\n"), "no rows"),
    "semicolons": ("t.csv", delimited(b";"), "semicolons"),
    "duplicate columns": ("t.csv", with_bytes(NAMES + b",size\n" + ROW + b",1\n"), "'size'"),
    "not UTF-8": ("t.csv", with_bytes(NAMES + b",stra\xdfe\n" + ROW + b",1\n"), "UTF-8"),
    "truncated Parquet": ("t.parquet", truncated, "not a whole Parquet file"),
    "unknown format": ("t.xlsx", with_bytes(b"PK\x03\x04"), "'.xlsx'"),
}
#: Of a table to fit.
FITTED = {
    "missing column": ("t.csv", lambda p: write(homes().rename(columns={"price": "Price"}), p),
                       "did you mean 'Price'"),
    "text in the target": ("t.csv", with_column(price=SOME_TEXTS), "holds 'unknown' (row 0"),
    "two rows": ("t.csv", lambda path: write(homes(2), path), "2 row(s)"),
    "spaces": ("t.csv", delimited(b" "), "by spaces"),
    "colons": ("t.csv", delimited(b":"), "by colons"),
    "10,000 columns": ("t.csv", wide, "10,000 columns"),
    "constant target": ("t.csv", with_column(price=3.0), "is 3 in every row"),
    "target without values": ("t.csv", with_column(price=np.nan), "no finite value"),
    "only the target": ("t.csv", lambda p: write(homes()[["price"]], p), "expected features"),
}  # fmt: skip


@pytest.mark.parametrize("case", [*READ, *FITTED])
def test_run_refuses_in_one_sentence_and_writes_nothing(case, tmp_path):
    name, make, words = {**READ, **FITTED}[case]
    make(tmp_path / name)
    options = ["-t", "price", *UNFITTABLE, "--out", tmp_path / "out"]
    refuse(tmp_path, words, "run", tmp_path / name, *options)


@pytest.mark.parametrize("case", READ)
def test_predict_and_new_rows_of_a_run_are_refused_too(case, data, model, tmp_path):
    name, make, words = READ[case]
    make(tmp_path / name)
    out = ["--out", tmp_path / "out" / "made.csv"]
    refuse(tmp_path, words, "predict", model, tmp_path / name, *out)
    options = ["-t", "price", *QUICK, "--new", tmp_path / name, "--out", tmp_path / "out"]
    refuse(tmp_path, words, "run", data, *options)
