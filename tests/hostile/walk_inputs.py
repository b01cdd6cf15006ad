"""What random walks feed the public interface: rows, responses and parameters of every kind."""

import tempfile
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import strategies as st
from scipy import sparse
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from localconformal import ForestLaw, KernelLaw, LearnedLaw, NeighborsLaw, StackedLaw
from localconformal.adjustments import ADJUSTMENTS
from localconformal.densities import DENSITIES
from localconformal.scores import SCORES

# ---- rows ------------------------------------------------------------------------------------


def with_holes(rng, n, d, hole):
    return np.where(rng.uniform(size=(n, d)) < 0.2, hole, rng.normal(size=(n, d)))


#: (n, d) numbers of each pattern, from a generator.
VALUES = {
    "plain": lambda rng, n, d: rng.normal(size=(n, d)),
    "repeated": lambda rng, n, d: rng.integers(0, 2, size=(n, d)).astype(float),
    "constant": lambda rng, n, d: np.full((n, d), 3.0),
    "constant-column": lambda rng, n, d: rng.normal(size=(n, d)) * (np.arange(d) > 0),
    "huge": lambda rng, n, d: 1e150 * rng.normal(size=(n, d)),
    "largest": lambda rng, n, d: np.finfo(float).max * rng.uniform(-1, 1, size=(n, d)),
    "tiny": lambda rng, n, d: 1e-150 * rng.normal(size=(n, d)),
    "denormal": lambda rng, n, d: 5e-324 * rng.integers(-9, 9, size=(n, d)),
    "many-scales": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-9, 9, (n, d)),
    "some-nan": lambda rng, n, d: with_holes(rng, n, d, np.nan),
    "some-infinite": lambda rng, n, d: with_holes(rng, n, d, np.inf),
    "nan-column": lambda rng, n, d: np.where(np.arange(d) > 0, rng.normal(size=(n, d)), np.nan),
}


def converted(dtype):
    """To this type, whatever is lost on the way."""
    whole = np.dtype(dtype).kind in "iub"
    return lambda a: (np.nan_to_num(a) if whole else a).astype(dtype)


def strided(a):
    """Every second row and column of a larger array."""
    large = np.full((2 * a.shape[0], 2 * a.shape[1]), np.nan)
    large[::2, ::2] = a
    return large[::2, ::2]


def read_only(a):
    copy = a.copy()
    copy.flags.writeable = False
    return copy


def memory_mapped(a):
    """On disk, opened for reading; an empty array has nothing to map."""
    if not a.size:
        return a
    with tempfile.NamedTemporaryFile() as file:
        np.asarray(a).tofile(file)
        file.flush()
        return np.memmap(file.name, dtype=a.dtype, mode="r", shape=a.shape)


def names(a):
    return [f"x{column}" for column in range(a.shape[1])]


def labels(a):
    """One of three labels for each row, or none where the number is missing."""
    first = a[:, 0] if a.shape[1] else np.zeros(len(a))
    return [None if v != v else "abc"[int(v > 0) + int(v > 1)] for v in first]


def in_pandas(a, kind=None):
    """A frame with an index of its own, and a column of labels of this type."""
    frame = pd.DataFrame(a, columns=names(a), index=np.arange(len(a)) * 7 + 3)
    return frame if kind is None else frame.assign(label=pd.array(labels(a), dtype=kind))


def in_polars(a, kind=None):
    frame = pl.DataFrame(a, schema=names(a))
    return frame if kind is None else frame.with_columns(pl.Series("label", labels(a), kind))


def with_times(a):
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(a)), unit="D")
    return pd.DataFrame(a, columns=names(a)).assign(day=days)


#: What some base model takes: from (n, d) float64.
KINDS = {
    "float64": lambda a: a,
    "float32": converted(np.float32),
    "float16": converted(np.float16),
    "int64": converted(np.int64),
    "int8": converted(np.int8),
    "bool": converted(bool),
    "object": converted(object),
    "big-endian": converted(">f8"),
    "long-double": converted(np.longdouble),
    "fortran": np.asfortranarray,
    "strided": strided,
    "reversed": lambda a: a[::-1, ::-1],
    "read-only": read_only,
    "memory-mapped": memory_mapped,
    "list": lambda a: a.tolist(),
    "pandas": in_pandas,
    "pandas-category": lambda a: in_pandas(a, "category"),
    "pandas-object": lambda a: in_pandas(a, "object"),
    "pandas-nullable": lambda a: pd.DataFrame(a, columns=names(a)).convert_dtypes(),
    "pandas-times": with_times,
    "pandas-numbered": pd.DataFrame,
    "polars": in_polars,
    "polars-category": lambda a: in_polars(a, pl.Categorical),
    "polars-text": lambda a: in_polars(a, pl.String),
}
#: What none takes.
BAD_KINDS = {
    "text": lambda a: np.full(a.shape, "a"),
    "complex": lambda a: a * 1j,
    "times": converted("datetime64[s]"),
    "sparse": lambda a: sparse.csr_matrix(np.nan_to_num(a)),
    "one-dimension": lambda a: a.ravel(),
    "three-dimensions": lambda a: a[:, :, None],
    "ragged": lambda a: [[1.0] * (1 + row % 2) for row in range(len(a))],
    "repeated-names": lambda a: pd.DataFrame(a, columns=["x"] * a.shape[1]),
    "masked": lambda a: np.ma.array(a, mask=np.ones(a.shape)),
    "lazy": lambda a: in_polars(a).lazy(),
    "records": lambda a: [{"x": 1.0}] * len(a),
    "none": lambda a: None,
    "number": lambda a: 3.0,
    "word": lambda a: "rows",
}


@dataclass(frozen=True)
class Rows:
    """Rows to be made: of a kind, a shape and a pattern of values."""

    kind: str
    n: int
    d: int
    values: str
    seed: int

    def make(self):
        plain = VALUES[self.values](np.random.default_rng(self.seed), self.n, self.d)
        with np.errstate(all="ignore"):
            return (KINDS | BAD_KINDS)[self.kind](plain)


#: From (n,) float64: what a response may be,
TARGETS = {
    "plain": lambda y: y,
    "float32": lambda y: y.astype(np.float32),
    "integers": lambda y: np.round(y).astype(int),
    "bool": lambda y: y > 0,
    "object": lambda y: y.astype(object),
    "read-only": read_only,
    "strided": lambda y: np.repeat(y, 2)[::2],
    "list": lambda y: y.tolist(),
    "series": lambda y: pd.Series(y, index=np.arange(len(y)) + 5),
    "polars": pl.Series,
    "column": lambda y: y[:, None],
    "constant": np.ones_like,
    "zeros": np.zeros_like,
    "huge": lambda y: 1e149 * y,
    "tiny": lambda y: 1e-150 * y,
}
#: and what it may not.
BAD_TARGETS = {
    "nan": lambda y: np.where(np.arange(len(y)) == 0, np.nan, y),
    "infinite": lambda y: np.where(np.arange(len(y)) == 0, -np.inf, y),
    "largest": lambda y: np.finfo(float).max * np.sign(y),
    "two-columns": lambda y: np.column_stack([y, y]),
    "too-short": lambda y: y[1:],
    "too-long": lambda y: np.append(y, 1.0),
    "text": lambda y: np.full(len(y), "a"),
    "masked": lambda y: np.ma.array(y, mask=np.ones(len(y))),
    "missing": lambda y: np.where(np.arange(len(y)) == 0, None, y.astype(object)),
    "times": lambda y: np.full(len(y), np.datetime64("2020-01-01")),
    "complex": lambda y: y * 1j,
    "none": lambda y: None,
    "number": lambda y: 1.0,
    "empty": lambda y: y[:0],
}


@dataclass(frozen=True)
class Target:
    """A response to be made for n rows."""

    kind: str
    n: int
    seed: int

    def make(self):
        plain = np.random.default_rng(self.seed).normal(size=self.n)
        return (TARGETS | BAD_TARGETS)[self.kind](plain)


def mostly(good, bad, times=8):
    """One of the good ones ``times`` out of ``times + 1`` times."""
    good, bad = st.sampled_from(list(good)), st.sampled_from(list(bad))
    return st.integers(0, times).flatmap(lambda which: bad if which == times else good)


@st.composite
def tables(draw, good=False):
    """Rows and their response: good ones, or now and then what none takes."""
    n = draw(st.sampled_from([60, 30, 12, 5] if good else [60, 30, 12, 5, 3, 2, 1, 0]))
    rows = Rows(
        draw(mostly(["float64", *KINDS], KINDS if good else BAD_KINDS)),
        n,
        draw(st.sampled_from([2, 1, 3] if good else [2, 2, 2, 2, 1, 3, 0])),
        draw(mostly(["plain"], VALUES, times=2)),
        draw(st.integers(0, 99)),
    )
    response = mostly(["plain", *TARGETS], TARGETS if good else BAD_TARGETS)
    return rows, Target(draw(response), n, rows.seed)


# ---- parameters ------------------------------------------------------------------------------


@dataclass
class OnlyPredicts:
    """A model from elsewhere: it cannot be fitted or cloned, only asked."""

    answer: float = 0.5
    outputs: tuple[int, ...] = ()

    def predict(self, X):
        return np.full((len(X), *self.outputs), self.answer)


def one_each(X):
    return np.ones(len(X))


def negative(X):
    return -np.ones(len(X))


def two_each(X):
    return np.ones(2 * len(X))


BOOSTING = HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=3, random_state=0)
MODELS = [
    LinearRegression(),
    LinearRegression(),
    BOOSTING,
    QuantileRegressor(alpha=0),
    DecisionTreeRegressor(max_depth=3, random_state=0),
    RandomForestRegressor(5, random_state=0),
    DummyRegressor(),
    make_pipeline(StandardScaler(), Ridge()),
    FrozenEstimator(LinearRegression().fit(np.eye(2), [0.0, 1.0])),
    OnlyPredicts(),
]
BAD_MODELS = [3, "model", LinearRegression, (LinearRegression(),)]
BAD_MODELS += [OnlyPredicts(np.nan), OnlyPredicts(0.0, outputs=(2,))]
LAWS = [
    "kernel",
    "neighbors",
    "uniform",
    "auto",
    KernelLaw("boxcar", bandwidth=1e-3, min_effective_samples=1),
    KernelLaw("epanechnikov", bandwidth="cv"),
    KernelLaw(embedding="outputs"),
    NeighborsLaw(n_neighbors=100),
    ForestLaw(RandomForestRegressor(5), n_jobs=1),
    LearnedLaw(BOOSTING, levels=(0.1, 0.5, 0.9), n_jobs=1),
    StackedLaw(["uniform", "neighbors"]),
]
#: By name: values that are taken, and values that are refused (by fit, at the latest).
PARAMETERS = {
    "estimator": (MODELS, BAD_MODELS),
    "confidence_level": ([0.9, 0.5, 0.01, 0.999, np.float32(0.8)], [0, 1, 1.5, -1, np.nan, "0.9"]),
    "calibration_size": ([0.25, 0.5, 1, 10, None], [0, 1.0, -3, 1.5, 10**6, "half", np.nan]),
    "random_state": ([0, 7, None], [-1, "seed", 1.5]),
    "n_jobs": ([None, 1], ["two", 1.5]),
    "law": (LAWS, ["nonsense", 3, KernelLaw(bandwidth=-1.0), NeighborsLaw(n_neighbors=0)]),
    "score": (sorted(SCORES), ["nonsense", 3, None]),
    "adjustment": (sorted(ADJUSTMENTS), ["nonsense", 3, None]),
    "reference": (["cross-fit", "holdout", "train", "oob"], ["nonsense", None]),
    "sides": (["joint", "union", "absolute"], ["both", None]),
    "upper_share": ([0.5, 0.1], [0.0, 1.0, "all"]),
    "selection_budget": ([0.0], [-1.0, "a minute"]),
    "beta": ([0.01, 0.0, 10.0], [-1.0, "a"]),
    "spread_estimator": ([LinearRegression(), BOOSTING, None], [3, "model"]),
    "method": (["symmetric", "asymmetric", "m", "r"], ["nonsense"]),
    "quantiles": ([None, (0.1, 0.9)], [(0.9, 0.1), (0.5,), "a", (0.0, 1.0), (np.nan, 0.5)]),
    "partition": (["tree", "forest"], ["nonsense"]),
    "min_samples_leaf": ([1, 5, 100], [0, 1.5]),
    "n_estimators": ([1, 5], [0, "few"]),
    "groups": ([None, 0, "x0", one_each], ["nowhere", 9, 1.5, two_each]),
    "small_cells": (["infinite", "pool"], ["nonsense"]),
    "weights": ([None, one_each], [3, two_each, negative]),
    "clip": ([0.01, 0.4], [0.0, 0.5]),
    "density": (sorted(DENSITIES), ["nonsense"]),
    "n_cells": ([None, 1, 3], [0, 1.5]),
}
#: Instead of defaults that take seconds.
QUICK = {"law": "kernel", "selection_budget": 0.0, "n_estimators": 5, "n_jobs": 1}


def some_params(kind):
    """A few of the parameters that this kind has, now and then one it refuses."""
    known = sorted(set(kind().get_params(deep=False)) & set(PARAMETERS))
    one = st.sampled_from(known).flatmap(
        lambda name: st.tuples(st.just(name), mostly(*PARAMETERS[name]))
    )
    return st.lists(one, max_size=3).map(dict)
