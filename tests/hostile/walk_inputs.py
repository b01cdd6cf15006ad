"""What random walks feed the public interface: tables and parameters of every kind."""

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

from inner import ADJUSTMENTS, SCORES
from localconformal import ForestLaw, KernelLaw, LearnedLaw, NeighborsLaw, StackedLaw

#: Standard normal numbers (n, d) -> numbers of a pattern.
VALUES = {
    "plain": lambda z: z,
    "repeated": lambda z: (z > 0).astype(float),
    "constant": lambda z: np.full_like(z, 3.0),
    "constant-column": lambda z: z * (np.arange(z.shape[1]) > 0),
    "huge": lambda z: 1e150 * z,
    "largest": lambda z: np.finfo(float).max * np.tanh(z),
    "tiny": lambda z: 1e-150 * z,
    "denormal": lambda z: 5e-324 * np.round(5 * z),
    "many-scales": lambda z: z * 10.0 ** np.round(4 * z),
    "some-nan": lambda z: np.where(z > 1, np.nan, z),
    "some-infinite": lambda z: np.where(z > 1, np.inf, z),
    "nan-column": lambda z: np.where(np.arange(z.shape[1]) > 0, z, np.nan),
}


def converted(dtype):
    whole = np.dtype(dtype).kind in "iub"
    return lambda a: (np.nan_to_num(a) if whole else a).astype(dtype)


def read_only(a):
    copy = a.copy()
    copy.flags.writeable = False
    return copy


def memory_mapped(a):
    """On disk, opened for reading; an empty array has nothing to map."""
    if not a.size:
        return a
    with tempfile.NamedTemporaryFile() as file:
        file.write(a.tobytes())
        file.flush()
        return np.memmap(file.name, dtype=a.dtype, mode="r", shape=a.shape)


def in_pandas(a, kind=None):
    frame = pd.DataFrame(a, columns=names(a), index=np.arange(len(a)) * 7 + 3)
    return frame if kind is None else frame.assign(label=pd.array(labels(a), dtype=kind))


def in_polars(a, kind=None):
    frame = pl.DataFrame(a, schema=names(a))
    return frame if kind is None else frame.with_columns(pl.Series("label", labels(a), kind))


def names(a):
    return [f"x{column}" for column in range(a.shape[1])]


def labels(a):
    first = a[:, 0] if a.shape[1] else np.zeros(len(a))
    return [None if v != v else "abc"[int(v > 0) + int(v > 1)] for v in first]


#: (n, d) float64 -> what some base model takes,
KINDS = {
    "float64": lambda a: a,
    **{name: converted(name) for name in ("float32", "float16", "longdouble", ">f8")},
    **{name: converted(name) for name in ("int64", "int8", "bool", "object")},
    "fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(np.repeat(a, 2, axis=0), 2, axis=1)[::2, ::2],
    "read-only": read_only,
    "memory-mapped": memory_mapped,
    "list": lambda a: a.tolist(),
    "pandas": in_pandas,
    "pandas-category": lambda a: in_pandas(a, "category"),
    "pandas-nullable": lambda a: in_pandas(a).convert_dtypes(),
    "pandas-times": lambda a: in_pandas(a).assign(day=pd.date_range("2020", periods=len(a))),
    "polars": in_polars,
    "polars-category": lambda a: in_polars(a, pl.Categorical),
}
#: and what none takes.
BAD_KINDS = {
    "text": lambda a: np.full(a.shape, "a"),
    "complex": lambda a: a * 1j,
    "times": converted("datetime64[s]"),
    "sparse": lambda a: sparse.csr_matrix(np.nan_to_num(a)),
    "one-dimension": lambda a: a.ravel(),
    "repeated-names": lambda a: pd.DataFrame(a, columns=["x"] * a.shape[1]),
    "masked": lambda a: np.ma.array(a, mask=np.ones(a.shape)),
    "lazy": lambda a: in_polars(a).lazy(),
    **{str(value): lambda a, value=value: value for value in (None, 3.0, "word")},
}
#: (n,) float64 -> what a response may be,
TARGETS = {
    "plain": lambda y: y,
    **{name: converted(name) for name in ("float32", "int64", "bool", "object")},
    "read-only": read_only,
    "list": lambda y: y.tolist(),
    "series": lambda y: pd.Series(y, index=np.arange(len(y)) + 5),
    "polars": pl.Series,
    "column": lambda y: y[:, None],
    **{f"{factor} y": lambda y, factor=factor: factor * y for factor in (0.0, 1e149, 1e-150)},
}
#: and what it may not.
BAD_TARGETS = {
    **{str(v): lambda y, v=v: np.array([v, *y[1:]])[: len(y)] for v in (np.nan, -np.inf, None)},
    "largest": lambda y: np.finfo(float).max * np.sign(y),
    "two-columns": lambda y: np.column_stack([y, y]),
    "too-short": lambda y: y[1:],
    "text": lambda y: np.full(len(y), "a"),
    "empty": lambda y: y[:0],
    "none": lambda y: None,
}


@dataclass(frozen=True)
class Table:
    """Rows and responses to be made: of a kind, a shape and a pattern of values."""

    kind: str = "float64"
    n: int = 0
    d: int = 2
    values: str = "plain"
    target: str = "plain"
    seed: int = 0

    def X(self):
        plain = np.random.default_rng(self.seed).normal(size=(self.n, self.d))
        with np.errstate(all="ignore"):
            return (KINDS | BAD_KINDS)[self.kind](VALUES[self.values](plain))

    def y(self):
        plain = np.random.default_rng(self.seed).normal(size=self.n)
        return (TARGETS | BAD_TARGETS)[self.target](plain)


def mostly(good, bad, times=8):
    """One of the good ones ``times`` out of ``times + 1`` times."""
    good, bad = st.sampled_from(list(good)), st.sampled_from(list(bad))
    return st.integers(0, times).flatmap(lambda which: bad if which == times else good)


def tables(good=False):
    return st.builds(
        Table,
        kind=mostly(["float64", *KINDS], KINDS if good else BAD_KINDS),
        n=st.sampled_from([60, 30, 12, 5] if good else [60, 30, 12, 5, 3, 2, 1, 0]),
        d=st.sampled_from([2, 1, 3] if good else [2, 2, 2, 2, 1, 3, 0]),
        values=mostly(["plain"], VALUES, times=2),
        target=mostly(["plain", *TARGETS], TARGETS if good else BAD_TARGETS),
        seed=st.integers(0, 99),
    )


@dataclass
class OnlyPredicts:
    """A model from elsewhere: it cannot be fitted or cloned, only asked."""

    answer: float = 0.5
    outputs: tuple[int, ...] = ()

    def predict(self, X):
        return np.full((len(X), *self.outputs), self.answer)


@dataclass
class Numbers:
    """A function of rows that gives this number so many times for each."""

    value: float
    each: int = 1

    def __call__(self, X):
        return np.full(self.each * len(X), self.value)


LINE, FOREST = LinearRegression(), RandomForestRegressor(5, random_state=0)
BOOSTING = HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=3, random_state=0)
MODELS = [LINE, LINE, BOOSTING, FOREST, QuantileRegressor(alpha=0), DummyRegressor()]
MODELS += [OnlyPredicts(), make_pipeline(StandardScaler(), Ridge())]
MODELS += [FrozenEstimator(LINE.fit(np.eye(2), [0, 1]))]
BAD_MODELS = [3, "model", LinearRegression, (LINE,), OnlyPredicts(np.nan), OnlyPredicts(0.0, (2,))]
LAWS = ["kernel", "neighbors", "uniform", "auto", StackedLaw(["uniform", "neighbors"])]
LAWS += [KernelLaw("boxcar", bandwidth=1e-3, min_effective_samples=1)]
LAWS += [KernelLaw("epanechnikov", bandwidth="cv"), KernelLaw(embedding="outputs")]
LAWS += [NeighborsLaw(n_neighbors=100), ForestLaw(FOREST, n_jobs=1)]
LAWS += [LearnedLaw(BOOSTING, levels=(0.1, 0.5, 0.9), n_jobs=1)]
#: By name: values that are taken, and values that are refused (by fit, at the latest).
PARAMETERS = {
    "estimator": (MODELS, BAD_MODELS),
    "confidence_level": ([0.9, 0.5, 0.01, 0.999, np.float32(0.8)], [0, 1, 1.5, -1, np.nan, "0.9"]),
    "calibration_size": ([0.25, 0.5, 1, 10, None], [0, 1.0, -3, 1.5, 10**6, "half", np.nan]),
    "random_state": ([0, 7, None], [-1, "seed", 1.5]),
    "n_jobs": ([None, 1], ["two", 1.5]),
    "law": (LAWS, ["nonsense", 3, KernelLaw(bandwidth=-1.0), NeighborsLaw(n_neighbors=0)]),
    "conformity_score": (sorted(SCORES), ["nonsense", 3, None]),
    "adjustment": (sorted(ADJUSTMENTS), ["nonsense", 3]),
    "reference": (["cross-fit", "holdout", "train", "oob"], ["nonsense", None]),
    "sides": (["joint", "union", "absolute"], ["both", None]),
    "upper_share": ([0.5, 0.1], [0.0, 1.0, "all"]),
    "effort": (["low"], [-1.0, "a minute"]),
    "beta": ([0.01, 0.0, 10.0], [-1.0, "a"]),
    "spread_estimator": ([LINE, BOOSTING, None], [3, "model"]),
    "method": (["symmetric", "asymmetric", "m", "r"], ["nonsense"]),
    "partition": (["tree", "forest"], ["nonsense"]),
    "min_samples_leaf": ([1, 5, 100], [0, 1.5]),
    "n_estimators": ([1, 5], [0, "few"]),
    "groups": ([None, 0, "x0", Numbers(1.0)], ["nowhere", 9, 1.5, Numbers(1.0, each=2)]),
    "small_cells": (["infinite", "pool"], ["nonsense"]),
    "weights": ([None, Numbers(1.0)], [3, Numbers(1.0, each=2), Numbers(-1.0)]),
    "clip": ([0.01, 0.4], [0.0, 0.5]),
    "n_cells": ([None, 1, 3], [0, 1.5]),
}
#: Instead of defaults that take seconds.
QUICK = {"law": "kernel", "effort": "low", "n_estimators": 5, "n_jobs": 1}


def some_params(kind):
    known = sorted(set(kind().get_params(deep=False)) & set(PARAMETERS))
    one = st.sampled_from(known).flatmap(
        lambda name: st.tuples(st.just(name), mostly(*PARAMETERS[name]))
    )
    return st.lists(one, max_size=3).map(dict)
