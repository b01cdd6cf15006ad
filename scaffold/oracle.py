"""Frozen answers of every estimator and law on small problems: the safety net of the redesign.

    python -m scaffold.oracle check     # after every step; exit code 1 if anything differs
    python -m scaffold.oracle freeze    # where an answer is meant to change, with the reason

Scaffolding: it leaves with the redesign of the core, since tests assert laws, not frozen numbers.
Only names of `localconformal` itself are used, so that it runs before and after modules move.
``law="auto"`` is left out, because the redesign of the core replaces it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression

import localconformal as lc

FROZEN = Path(__file__).with_name("frozen.npz")
LEVELS = [0.5, 0.8, 0.9, 0.95]
DIAGNOSED = (
    "effective_sample_size",
    "local_lower",
    "local_upper",
    "correction",
    "fallback",
    "crossed",
    "infinite",
)
#: Estimators that see few rows and frames as well; the others see plain rows and ties.
WIDELY = ("split", "cqr symmetric", "slcp kernel", "slcp forest", "mondrian", "HPD", "LCP")
Answers = dict[str, Any]


def tolerance(key: str) -> float:
    """1e-9; masses of the float32 engines move by 1e-8 with the compiler's cache and threads."""
    single = key.startswith(("law exact |", "law sketch |", "law neighbors engine |"))
    return 1e-6 if single and not key.endswith(("quantile", "upper")) else 1e-9


def table(kind: str, n: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Heteroscedastic rows: plain, with ties, few, or as a frame with categories and gaps."""
    rng = np.random.default_rng([seed, n, len(kind)])
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.1]
    y = X[:, 0] + (0.3 + np.abs(X[:, 0])) * rng.normal(size=n)
    if kind == "ties":
        return np.round(X), np.round(y)
    if kind in ("pandas", "polars"):
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        frame["kind"] = pd.Categorical(rng.choice(["u", "v", "w"], size=n))
        frame.loc[rng.uniform(size=n) < 0.1, "b"] = np.nan
        y = y + 2.0 * (frame["kind"] == "u").to_numpy()
        return (pl.from_pandas(frame) if kind == "polars" else frame), y
    return X, y


def boosting(**params: Any) -> HistGradientBoostingRegressor:
    """A quick model that knows categories and gaps."""
    return HistGradientBoostingRegressor(
        max_iter=15, random_state=0, categorical_features="from_dtype", **params
    )


def median() -> HistGradientBoostingRegressor:
    """A quick model of the median."""
    return boosting(loss="quantile", quantile=0.5)


def additive_by_hand(v: Any, F: Any, theta: Any) -> Any:
    """The additive adjustment, as somebody would write it."""
    return F.quantile(F.level) + theta - v


def squares(X: Any) -> np.ndarray:
    """Weights of new rows."""
    return 0.2 + np.asarray(X)[:, 0].astype(float) ** 2


def estimators() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """(name, function that builds the estimator around a point model)."""

    def case(name: str, cls: Any, own: Any = None, **params: Any) -> tuple[str, Any]:
        return name, lambda model: cls(model if own is None else own, random_state=0, **params)

    slcp = lc.SLCPRegressor
    yield case("split", lc.SplitConformalRegressor)
    for method in ("symmetric", "asymmetric", "m", "r"):
        yield case(f"cqr {method}", lc.ConformalizedQuantileRegressor, median(), method=method)
    yield case("madsplit", lc.MADSplitRegressor, spread_estimator=boosting())
    yield case("mondrian", lc.MondrianConformalRegressor)
    yield case("locart tree", lc.LocartRegressor, min_samples_leaf=40)
    grown = {"partition": "forest", "min_samples_leaf": 30, "n_estimators": 10}
    yield case("locart forest", lc.LocartRegressor, **grown)
    yield case("weighted", lc.WeightedConformalRegressor, weights=squares)
    for cls in (lc.LCPRegressor, lc.RLCPRegressor, lc.LVDRegressor):
        yield case(cls.__name__, cls)
    for cls in (lc.HPDSplitRegressor, lc.CDSplitRegressor, lc.CHRRegressor):
        yield case(cls.__name__, cls, law="kernel")
    yield case("hpd forest", lc.HPDSplitRegressor)
    for sides in ("union", "joint"):
        yield case(f"dist {sides}", lc.DistSplitRegressor, law="kernel", sides=sides)
    for law in ("kernel", "neighbors", "forest", "learned", "uniform"):
        yield case(f"slcp {law}", slcp, law=law)
    quantiles = ("scaled", "multiplicative", "theta", "plain")
    for adjustment in (*quantiles, "additive-expectation", "multiplicative-expectation"):
        yield case(f"slcp {adjustment}", slcp, law="kernel", adjustment=adjustment)
    for sides in ("union", "absolute"):
        yield case(f"slcp {sides}", slcp, law="kernel", sides=sides)
    for score in ("absolute", "normalised", "response"):
        yield case(f"slcp {score}", slcp, law="kernel", conformity_score=score)
    yield case("slcp quantile", slcp, median(), law="kernel", conformity_score="quantile")
    for reference in ("holdout", "train"):
        yield case(f"slcp {reference}", slcp, law="kernel", reference=reference)
    bagged = RandomForestRegressor(20, oob_score=True, random_state=0)
    yield case("slcp oob", slcp, bagged, law="kernel", reference="oob")
    yield case("slcp scaled law", slcp, law=lc.ScaledLaw("forest"))
    yield case("slcp response law", slcp, law=lc.ResponseLaw("kernel"))
    yield case("slcp shifted law", slcp, law=lc.ShiftedLaw("kernel"))
    yield case("slcp stacked", slcp, law=lc.StackedLaw(["uniform", "kernel", "forest"]))
    yield case("slcp outputs", slcp, law=lc.KernelLaw(embedding="outputs-spread"))
    yield case("slcp metric", slcp, law=lc.KernelLaw(embedding="metric"))
    by_hand = lc.MonotoneAdjustment(additive_by_hand)
    yield case("slcp monotone", slcp, law="kernel", adjustment=by_hand)


def laws() -> Iterator[tuple[str, int, Any]]:
    """(name, number of reference rows, law)."""
    kernel, grown = lc.KernelLaw, RandomForestRegressor(20, min_samples_leaf=5, random_state=0)
    one = {"random_state": 0, "n_jobs": 1}
    yield "cv", 500, kernel(bandwidth="cv", random_state=0)
    yield "median-log boxcar", 500, kernel("boxcar", bandwidth="median-log", random_state=0)
    yield "narrow", 500, kernel("epanechnikov", bandwidth=0.05, random_state=0)
    yield "minibatch", 500, kernel(engine="minibatch", random_state=0)
    yield "exact", 5_000, kernel(engine="exact", **one)
    yield "exact boxcar", 5_000, kernel("boxcar", bandwidth=0.3, engine="exact", **one)
    yield "sketch", 12_000, kernel(engine="sketch", **one)
    yield "neighbors engine", 12_000, kernel(bandwidth=0.05, engine="exact", **one)
    yield "neighbors law", 5_000, lc.NeighborsLaw(50)
    yield "forest", 5_000, lc.ForestLaw(grown, **one)
    yield "learned", 500, lc.LearnedLaw(**one)
    yield "stacked", 500, lc.StackedLaw(["uniform", "kernel", "forest"], **one)


def asked(model: Any, Z: Any, **labels: Any) -> Answers:
    """Everything that a fitted estimator says at the rows Z."""
    found = {
        "bounds": model.predict_interval(Z, confidence_level=LEVELS, **labels),
        "point": model.predict(Z),
    }
    told = model.diagnose(Z, **labels)
    found |= {f"diagnose {name}": np.asarray(told[name], dtype=float) for name in DIAGNOSED}
    if hasattr(model, "predict_region"):
        region = model.predict_region(Z)
        found |= {"starts": region.starts, "ends": region.ends, "offsets": region.offsets}
    if hasattr(model, "predict_quantiles"):
        try:
            found["quantiles"] = model.predict_quantiles(Z, [0.05, 0.5, 0.9])
            found["cdf"] = model.predict_cdf(Z, 0.5)
        except ValueError as error:  # e.g. two-sided scores have no distribution
            found["no distribution"] = np.array(len(str(error)) > 0)
    return found


def estimator_answers() -> Iterator[tuple[str, Answers]]:
    """Every estimator on its tables; intervals far from all rows included."""
    for name, build in estimators():
        for kind, n in {"plain": 400, "ties": 300, "few": 60, "pandas": 400, "polars": 400}.items():
            if kind not in ("plain", "ties") and not name.startswith(WIDELY):
                continue
            X, y = table(kind, n)
            Z = table(kind, 60, seed=1)[0]
            if kind == "plain":
                Z[:4] *= 20.0
            model = boosting() if kind in ("pandas", "polars") else LinearRegression()
            yield f"{name} | {kind}", asked(build(model).fit(X, y), Z)


def special_answers() -> Iterator[tuple[str, Answers]]:
    """Frozen models, learned and given weights, groups."""
    (X, y), (held, held_y) = table("plain", 400), table("plain", 200, seed=2)
    Z = table("plain", 60, seed=1)[0]
    frozen = {"point": LinearRegression(), "boosting": boosting()}
    for name, model in frozen.items():
        fitted = FrozenEstimator(model.fit(X, y))
        for cls, params in (
            (lc.SplitConformalRegressor, {}),
            (lc.SLCPRegressor, {"law": "kernel"}),
            (lc.HPDSplitRegressor, {"law": "kernel"}),
        ):
            estimator = cls(fitted, random_state=0, **params).fit(held, held_y)
            yield f"frozen {name} | {cls.__name__}", asked(estimator, Z)
    limits = [boosting(loss="quantile", quantile=q).fit(X, y) for q in (0.05, 0.95)]
    pair = [FrozenEstimator(model) for model in limits]
    cqr = lc.ConformalizedQuantileRegressor(pair, random_state=0)
    yield "frozen limits | cqr", {"bounds": cqr.fit(held, held_y).predict_interval(Z)}
    weighted = lc.WeightedConformalRegressor(LinearRegression(), random_state=0)
    yield "weighted | boosting learns", asked(weighted.fit(X, y, target=Z + 0.5), Z)
    weighted.set_params(weights=LogisticRegression())
    yield "weighted | classifier learns", asked(weighted.fit(X, y, target=Z + 0.5), Z)
    weighted.set_params(weights=None).fit(X, y, weights=squares(X))
    yield "weighted | given", asked(weighted, Z, weights=squares(Z))
    mondrian = lc.MondrianConformalRegressor(LinearRegression(), random_state=0)
    mondrian.fit(X, y, groups=np.where(X[:, 0] > 0, "high", "low"))
    yield "mondrian | groups", asked(mondrian, Z, groups=np.where(Z[:, 0] > 0, "high", "low"))


def law_answers() -> Iterator[tuple[str, Answers]]:
    """Every law, asked directly."""
    Z, values = table("plain", 60, seed=1)[0], np.linspace(-2, 2, 60)
    for name, n, law in laws():
        X, y = table("plain", n)
        law.fit(X, y - X[:, 0])
        found = {
            "quantile": law.quantile(Z, [0.05, 0.5, 0.95]),
            "upper": law.upper_quantile(Z, [0.1, 0.9]),
            "cdf": law.cdf(Z, values),
            "left": law.cdf(Z, values, side="left"),
            "mean": law.mean(Z),
            "size": law.effective_sample_size(Z),
        }
        for learned in ("weights_", "bandwidth_"):
            if hasattr(law, learned):
                found[learned] = getattr(law, learned)
        yield f"law {name}", found


def answers() -> dict[str, np.ndarray]:
    """Every answer, by "problem | part"."""
    problems = (*estimator_answers(), *special_answers(), *law_answers())
    return {
        f"{name} | {part}": np.asarray(value, dtype=float)
        for name, found in problems
        for part, value in found.items()
    }


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """The largest relative difference; infinite where shapes or infinite entries differ."""
    if a.shape != b.shape:
        return np.inf
    far = ~np.isfinite(a) | ~np.isfinite(b)
    if not np.array_equal(a[far], b[far], equal_nan=True):
        return np.inf
    a, b = a[~far], b[~far]
    return float(np.max(np.abs(a - b) / (1.0 + np.abs(a)), initial=0.0))


def check(frozen: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> bool:
    """Print what differs, is lost or is new; whether nothing differs and nothing is lost."""
    gaps = {key: difference(frozen[key], found[key]) for key in frozen if key in found}
    bad = sorted((key for key in gaps if gaps[key] > tolerance(key)), key=gaps.__getitem__)
    lost, new = sorted(frozen.keys() - found.keys()), sorted(found.keys() - frozen.keys())
    print(
        f"{len(gaps)} arrays compared, largest relative difference {max(gaps.values()):.1e}; "
        f"{len(bad)} differ, {len(lost)} lost, {len(new)} new"
    )
    lines = [f"  {gaps[key]:.1e}  {key}" for key in reversed(bad)]
    print("\n".join(lines + [f"  lost  {key}" for key in lost] + [f"  new  {key}" for key in new]))
    return not bad and not lost


def main(verb: str = "") -> int:
    """Freeze the answers, or check them against the frozen ones."""
    if verb not in ("check", "freeze"):
        print(__doc__)
        return 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = answers()
    if verb == "check":
        return int(not check(dict(np.load(FROZEN)), found))
    np.savez_compressed(FROZEN, **found)
    size = sum(value.size for value in found.values())
    print(f"{len(found)} arrays, {size} numbers, {FROZEN.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
