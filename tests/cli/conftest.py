"""One table and one run for all tests of the command line."""

import pytest
from table_files import QUICK, call, write

from registry import homes


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="session")
def data(folder):
    return write(homes(), folder / "homes.csv")


@pytest.fixture(scope="session")
def new(folder):
    """New rows, whose region no training row has."""
    return write(homes(50, seed=1).drop(columns="price").assign(region="west"), folder / "new.csv")


@pytest.fixture(scope="session")
def done(folder, data, new):
    out = folder / "made" / "out"
    options = ["--target", "price", "--id", "key", "--groups", "region", "--new", new]
    return call("run", data, *options, "--level", 0.9, "--level", 0.5, *QUICK, "--out", out), out


@pytest.fixture(scope="session")
def model(done):
    return done[1] / "model.skops"
