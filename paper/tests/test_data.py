"""Real data: what each table is, and where its file comes from."""

import functools
import hashlib
import http.server
import os
import threading

import numpy as np
import pandas as pd
import pytest

from paper.data import (
    DATASETS,
    FOLDER_VARIABLE,
    PUBLIC,
    PUBLIC_SHA256,
    SHA256,
    URL_VARIABLE,
    fetch_file,
    load_dataset,
)
from registry import optional

pytestmark = pytest.mark.ci
pooch = optional("pooch")
needs_files = pytest.mark.skipif(
    not os.environ.get(FOLDER_VARIABLE), reason=f"{FOLDER_VARIABLE} is not set"
)
#: Rows and columns of the papers' code where they are others than those of the clean version.
IN_PAPER = {"bike": (10_886, 18), "star": (2_161, 39), "community": (1_994, 100)}
IN_PAPER |= {"facebook_1": (40_948, 53)}
STAND_INS = ("facebook_testset", "meps_2015_util_19", "meps_2015_util_20", "meps_2017_util_21")


@needs_files
@pytest.mark.parametrize("name", DATASETS)
def test_tables_are_what_their_entries_say(name):
    entry, clean = DATASETS[name], load_dataset(name)
    assert clean.X.shape == (entry.rows, entry.features)
    assert tuple(clean.groups.columns) == entry.groups
    assert len(clean.groups) == len(clean.y) == entry.rows
    assert np.isfinite(clean.y).all()
    assert list(clean.X.index) == list(range(entry.rows))
    # A stand-in says so, and does not bear the other's name.
    assert bool(entry.stand_in) == (name in STAND_INS)
    quirky = load_dataset(name, as_in_paper=True)
    assert np.isfinite(quirky.X.to_numpy(dtype=float)).all()
    if "meps" not in name:
        assert quirky.X.shape == IN_PAPER.get(name, clean.X.shape)
    # No feature tells the target.
    for table in (clean, quirky):
        numbers = table.X.select_dtypes("number").to_numpy(dtype=float)
        assert not (numbers == table.y[:, None]).all(axis=0).any()
        assert entry.target not in table.X


@needs_files
def test_quirks_are_kept_only_as_in_the_paper():
    star, quirky = load_dataset("star"), load_dataset("star", as_in_paper=True)
    for name, has in (("Unnamed: 0", False), ("lunchk", True)):
        assert (name in star.X, name in quirky.X) == (has, not has)
    counts = quirky.groups["ethnicity"].value_counts()
    assert counts.to_dict() == {"cauc": 1653, "afam": 498, "asian": 7, "hispanic": 2, "other": 1}
    whole, lost = load_dataset("facebook_1"), load_dataset("facebook_1", as_in_paper=True)
    np.testing.assert_array_equal(whole.y[1:], lost.y)


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No folder has any file, and nothing is served: a cache of its own."""
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def served(nowhere):
    """A folder behind a local web server: (folder, address)."""
    folder = nowhere / "served"
    folder.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def yacht_frame():
    columns = [*"abcdef", "residuary_resistance"]
    return pd.DataFrame(np.arange(21.0).reshape(3, 7), columns=columns)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_in_a_folder_is_found_as_parquet_or_as_the_public_source_has_it(
    nowhere, monkeypatch
):
    yacht_frame().to_csv(nowhere / "data.txt", sep=" ", header=False, index=False)
    np.testing.assert_array_equal(load_dataset("yacht", data_home=nowhere).y, [6.0, 13.0, 20.0])
    yacht_frame().iloc[:2].to_parquet(nowhere / "yacht.parquet")
    monkeypatch.setenv(FOLDER_VARIABLE, str(nowhere))
    assert load_dataset("yacht").X.shape == (2, 6)
    (nowhere / "yacht.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match=r"yacht\.parquet could not be read"):
        load_dataset("yacht")


def test_a_download_is_checked_kept_and_not_repeated(served, monkeypatch):
    folder, address = served
    yacht_frame().to_csv(folder / "data.txt", sep=" ", header=False, index=False)
    monkeypatch.setitem(PUBLIC, "yacht", f"{address}/data.txt")
    monkeypatch.setitem(PUBLIC_SHA256, "yacht", sha256(folder / "data.txt"))
    first = load_dataset("yacht")
    (folder / "data.txt").unlink()
    np.testing.assert_array_equal(load_dataset("yacht").y, first.y)


def test_a_mirror_of_the_parquet_files_is_tried_first_and_checked(served, monkeypatch):
    folder, address = served
    yacht_frame().to_parquet(folder / "yacht.parquet")
    monkeypatch.setenv(URL_VARIABLE, address + "/")
    monkeypatch.setitem(SHA256, "yacht", sha256(folder / "yacht.parquet"))
    assert fetch_file("yacht").name == "yacht.parquet"
    (folder / "energy.parquet").write_bytes(b"something else")
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="is another file"):
            load_dataset("energy")


def test_offline_one_sentence_says_where_to_put_the_file(nowhere, monkeypatch):
    monkeypatch.setitem(PUBLIC, "bio", "http://127.0.0.1:9/CASP.csv")
    with pytest.raises(FileNotFoundError) as caught:
        fetch_file("bio")
    sentence = str(caught.value)
    for words in ("bio.parquet or CASP.csv", "could not be read", FOLDER_VARIABLE):
        assert words in sentence
    with pytest.raises(FileNotFoundError, match=r"kin8nm\.parquet.*no public site.*put the file"):
        load_dataset("kin8nm")
    with pytest.raises(ValueError, match=r"no data set 'bikes'.*bike"):
        load_dataset("bikes")


def test_every_file_has_a_checksum():
    files = {entry.file or name for name, entry in DATASETS.items()}
    assert files | {"utkface64"} == set(SHA256)
    assert set(PUBLIC) == set(PUBLIC_SHA256) <= set(SHA256)
