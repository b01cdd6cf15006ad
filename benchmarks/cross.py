"""What ``cv=10`` gains on small tables, and what it and ``cv="loo"`` cover.

``python -m benchmarks.cross tables`` fits SLCP with a quarter of the rows set aside and with ten
folds to the same rows of small tables, and scores both on the same other rows. ``python -m
benchmarks.cross coverage`` measures coverage of cross-conformal intervals over redraws of the
scenarios of ``benchmarks.stress``, and that of MAPIE's with the same model and number of folds.
Both add to benchmarks/results/cross.json what is not there yet, and write cross.md.
"""

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from mapie.conformity_scores import AbsoluteConformityScore
from mapie.regression import CrossConformalRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

from benchmarks.harness import describe_machine, seed_of
from benchmarks.stress import SCENARIOS
from benchmarks.tables import markdown_table
from localconformal import KernelLaw, SLCPRegressor, SplitConformalRegressor
from localconformal.metrics import coverage, interval_score, mean_length
from localconformal.rows import Rows
from paper.data import load_dataset

RESULTS = Path(__file__).parent / "results"
LEVEL, K = 0.9, 10
#: Table -> rows to fit; of the others at most so many are tested. 506 are the rows of Boston.
TABLES = {"yacht": 246, "energy": 614, "concrete": 824, "bike": 506, "kin8nm": 506}
MOST_TESTED = 1_000
#: Scenarios with continuous scores and fewer features than rows; the others are adversarial to CV+.
CONTINUOUS = ("Cauchy noise", "exploding scale", "near-duplicate columns", "common shock")
#: Where least squares follows single rows, so its folds disagree. Median regression does not.
HEAVY_TAILED = ("Cauchy noise", "exploding scale")
#: Redraws in which it is measured how far the folds are apart.
MEASURED = 40
N_FIT, N_FIT_WIDE, N_NEW = 140, 50, 400
WIDE = "1,000 features, 50 rows"


def table_rows(table, repeat):
    """Split and cross SLCP on the same rows of one table."""
    data, seed = load_dataset(table, as_in_paper=True), seed_of("cross", table, repeat)
    order = np.random.default_rng(seed).permutation(len(data.y))
    fit, new = np.split(order[: TABLES[table] + MOST_TESTED], [TABLES[table]])
    X, y = np.asarray(data.X, dtype=np.float64), data.y
    for name, cv in (("split", None), ("cross", K)):
        start = time.process_time()
        model = SLCPRegressor(cv=cv, random_state=seed, n_jobs=1).fit(X[fit], y[fit])
        fitted = time.process_time()
        bounds = model.predict_interval(X[new])
        yield {
            "table": table,
            "repeat": repeat,
            "method": name,
            "score": float(interval_score(y[new], bounds, LEVEL)),
            "length": float(mean_length(y[new], bounds)),
            "coverage": float(coverage(y[new], bounds)),
            "fit_seconds": fitted - start,
            "predict_seconds": time.process_time() - fitted,
        }


def split(model, cv):
    return SplitConformalRegressor(model, cv=cv, random_state=0)


def slcp(model, cv):
    law = KernelLaw(bandwidth="median")
    return SLCPRegressor(model, law=law, cv=cv, random_state=0, n_jobs=1)


MAKERS = {"Split": split, "SLCP (kernel)": slcp}


class Peer:
    """MAPIE's bounds of CV+, by this library's names."""

    def __init__(self, model):
        score = AbsoluteConformityScore()
        # It compares y with a tolerance that is absolute, which no y near 1e15 can meet.
        score.consistency_check = False
        options = {"confidence_level": LEVEL, "method": "plus", "cv": K}
        self.model = CrossConformalRegressor(model, conformity_score=score, **options)

    def fit(self, X, y):
        self.model.fit_conformalize(X, y)
        return self

    def predict_interval(self, X):
        return self.model.predict_interval(X)[1][:, :, 0]


PEER = f"MAPIE, cv={K}"
METHODS = {
    f"{name}, {cv=}": partial(make, cv=cv) for cv in (K, "loo") for name, make in MAKERS.items()
} | {PEER: Peer}
MODELS = {"least squares": LinearRegression(), "median regression": QuantileRegressor(alpha=0)}
#: Method, model, scenario; the peer, and one fold per row, where nothing but the folds'
#: disagreement may matter.
CELLS = [
    (method, model, scenario)
    for method in METHODS
    for model, scenarios in zip(MODELS, (SCENARIOS, HEAVY_TAILED), strict=True)
    for scenario in scenarios
    if (method.endswith(f"cv={K}") and method != PEER)
    or (model == "least squares" and scenario in CONTINUOUS)
]


def apart(model, bounds, X):
    """How far the ends of the folds' own intervals at one threshold are apart, over the width.

    CV+ covers about 1 - alpha if the folds agree (Barber et al., 2021, Theorem 5). Of both ends the
    mean, and of rows the median.
    """
    level, held = np.array([LEVEL]), model.calibration_
    theta = held.theta(level)[None]
    ends = np.stack([fold.parts.at(Rows(X)).bounds(theta, level)[..., 0] for fold in held.folds])
    width = bounds[:, 1] - bounds[:, 0]
    wide = np.isfinite(width) & (width > 0)
    share = np.ptp(ends, axis=0).mean(axis=1)[wide] / width[wide]
    return float(np.median(share)) if wide.any() else 0.0


def coverage_row(method, name, scenario, seeds):
    """Mean coverage of new rows over redraws of everything, and its standard error."""
    n, found, spread = N_FIT_WIDE if scenario == WIDE else N_FIT, [], []
    for seed in range(seeds):
        X, y = SCENARIOS[scenario](n + N_NEW, np.random.default_rng([seed, seed_of(scenario)]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = METHODS[method](MODELS[name]).fit(X[:n], y[:n])
            bounds = model.predict_interval(X[n:])
        found.append(float(coverage(y[n:], bounds)))
        if seed < MEASURED and method != PEER:
            spread.append(apart(model, bounds, X[n:]))
    return {
        "method": method,
        "model": name,
        "scenario": scenario,
        "seeds": seeds,
        "coverage": float(np.mean(found)),
        "standard_error": float(np.std(found, ddof=1) / np.sqrt(seeds)),
        "folds_apart": float(np.median(spread)) if spread else None,
    }


def share_of(width):
    return "not measured" if width is None else f"{width:.2f}"


def gains(rows):
    """Of each table: interval score across folds over that of a split, by repeat, and its mean."""
    by = {(row["table"], row["repeat"], row["method"]): row for row in rows}
    for table, n in TABLES.items():
        pairs = [
            (by[key], by[(*key[:2], "split")])
            for key in by
            if key[0] == table and key[2] == "cross" and (*key[:2], "split") in by
        ]
        if pairs:
            ratio = np.array([cross["score"] / split["score"] for cross, split in pairs])
            mean = {
                f"{name} {what}": float(np.mean([pair[place][what] for pair in pairs]))
                for place, name in enumerate(("cross", "split"))
                for what in ("coverage", "score", "length", "fit_seconds")
            }
            error = ratio.std(ddof=1) / np.sqrt(len(ratio)) if len(ratio) > 1 else np.nan
            yield (
                {"table": table, "rows": n, "repeats": len(pairs), "ratio": ratio.mean()}
                | mean
                | {"error": error}
            )


def page(known):
    """The tables in Markdown."""
    found = list(gains(known["tables"]))
    first = [
        {
            "table": one["table"],
            "rows to fit": one["rows"],
            "repeats": one["repeats"],
            "interval score, cross / split": f"{one['ratio']:.3f} ± {one['error']:.3f}",
            "length, cross / split": f"{one['cross length'] / one['split length']:.3f}",
            "coverage, cross": f"{100 * one['cross coverage']:.1f} %",
            "coverage, split": f"{100 * one['split coverage']:.1f} %",
            "fit, cross / split": f"{one['cross fit_seconds'] / one['split fit_seconds']:.1f}",
        }
        for one in found
    ]
    second = [
        {
            "method": row["method"],
            "model": row["model"],
            "scenario": row["scenario"],
            "scores": "continuous" if row["scenario"] in CONTINUOUS else "adversarial",
            "folds apart, share of the width": share_of(row["folds_apart"]),
            "coverage": f"{100 * row['coverage']:.1f} ± {100 * row['standard_error']:.1f} %",
            "redraws": row["seeds"],
        }
        for row in known["coverage"]
    ]
    mean = np.exp(np.mean(np.log([one["ratio"] for one in found]))) if found else np.nan
    said = f"Geometric mean of the ratios of interval scores: {mean:.3f}.\n\n"
    return markdown_table(first) + "\n" + said + markdown_table(second)


def save(known):
    known["machine"] = describe_machine()
    (RESULTS / "cross.json").write_text(json.dumps(known, indent=1) + "\n")
    (RESULTS / "cross.md").write_text(page(known))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["tables", "coverage", "page"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=200)
    told, path = parser.parse_args(), RESULTS / "cross.json"

    def read():
        return json.loads(path.read_text()) if path.exists() else {"tables": [], "coverage": []}

    if told.what == "page":
        save(read())
    if told.what == "tables":
        for repeat in range(told.repeats):
            for table in TABLES:
                known = {(row["table"], row["repeat"]) for row in read()["tables"]}
                if (table, repeat) not in known:
                    rows = list(table_rows(table, repeat))
                    found = read()
                    save(found | {"tables": found["tables"] + rows})
    if told.what == "coverage":
        for cell in CELLS:
            known = {(r["method"], r["model"], r["scenario"]) for r in read()["coverage"]}
            if cell not in known:
                row = coverage_row(*cell, told.seeds)
                found = read()
                save(found | {"coverage": [*found["coverage"], row]})


if __name__ == "__main__":
    main()
