"""However Dask reads a table, the model is the one of the table in one piece."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask_rows import NAMES, FirstColumn, cut, workers
from dask_sources import FEATURES, RESPONSE, SOURCES, TABLE, write
from sklearn.linear_model import LinearRegression

from docs.test_docs_pages import DOCS, python_of
from localconformal import KernelLaw, SLCPRegressor
from localconformal.distributed.blocks import make_blocks
from localconformal.distributed.computing import compute


def fitted(X, y):
    return SLCPRegressor(FirstColumn(), law=KernelLaw(), random_state=0).fit(X, y)


def in_one_piece():
    return fitted(*cut(FEATURES, RESPONSE, (len(RESPONSE),)))


def check_fit(X, y):
    """The lazy fit and its lazy bounds are those of one partition."""
    model = fitted(X, y)
    bounds = np.asarray(model.predict_interval(X).compute())
    np.testing.assert_allclose(bounds, in_one_piece().predict_interval(FEATURES), atol=1e-6)
    np.testing.assert_array_equal(bounds, model.predict_interval(X.compute()))


@pytest.mark.parametrize("name", SOURCES)
def test_blocks_hold_the_table_in_its_order(name, tmp_path):
    blocks = make_blocks(*SOURCES[name](tmp_path))
    X, y = zip(*compute(*blocks.pairs), strict=True)
    assert tuple(map(len, X)) == tuple(map(len, y)) == blocks.lengths
    assert blocks.starts == tuple(np.cumsum((0, *blocks.lengths))[:-1])
    np.testing.assert_array_equal(np.concatenate(X), FEATURES)
    np.testing.assert_array_equal(np.concatenate(y), RESPONSE)


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_model_of_one_piece(name, tmp_path):
    check_fit(*SOURCES[name](tmp_path))


@pytest.fixture(scope="module")
def client():
    with workers() as client:
        yield client


@pytest.mark.ci
@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_model_on_a_cluster(name, client, tmp_path):
    check_fit(*SOURCES[name](tmp_path))


def test_counting_reads_y_alone_and_a_pass_the_columns_of_the_model(tmp_path):
    read = []

    def read_part(path, columns):
        read.append(tuple(columns))
        return pd.read_parquet(path, columns=columns)

    paths = sorted(write(tmp_path).iterdir())
    table = dd.from_map(read_part, paths, meta=TABLE.iloc[:0])
    with dask.config.set(scheduler="synchronous"):
        blocks = make_blocks(table[NAMES], table["y"])
        assert read == [("y",)] * len(paths)
        compute(blocks.pairs[0])
    assert [sorted(columns) for columns in read[len(paths) :]] == [[*NAMES, "y"]]


def test_sides_cut_at_other_rows_are_refused():
    whole = dd.from_pandas(TABLE, npartitions=2)
    y = whole["y"].repartition(divisions=[0, 10, whole.divisions[-1]])
    with pytest.raises(ValueError, match="cut X and y at the same rows"):
        fitted(whole[NAMES], y)


def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    (tmp_path / "rides").mkdir()
    names = ["distance", "hour", "region"]
    for place in range(6):
        part = pd.DataFrame(rng.uniform(size=(100, 5)), columns=[*names, "tip", "tolls"])
        part["minutes"] = part["distance"] + rng.normal(size=100)
        part.to_parquet(tmp_path / "rides" / f"{place}.parquet", row_group_size=30)
    monkeypatch.chdir(tmp_path)
    whole = pd.read_parquet("rides")
    known = {"fitted": LinearRegression().fit(whole[names], whole["minutes"])}
    exec(python_of(DOCS / "guide" / "scale.md")[0], known)
    written = pd.read_parquet("rides-intervals")
    np.testing.assert_array_equal(
        written, known["model"].predict_interval(whole[names], output="frame")
    )
