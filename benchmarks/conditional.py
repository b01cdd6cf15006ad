"""Coverage in overlapping groups of real tables, and the cost of it beside peers.

``python -m benchmarks.conditional`` writes benchmarks/results/conditional.json and conditional.md.

Coverage: 20 groups of a table are the upper quarters of 20 of its columns, taken at even steps
among those that have one; they overlap. A split trains, calibrates and tests on 40, 40 and 20 % of
the rows; all methods share a ridge model and absolute residuals. A group fails if its mean coverage
over the splits is below 90 % by more than chance would have it in any of the groups of a table
(5 % for all together). Mondrian has the cells of the first group.

Speed: rows with 20 columns, the constant and 19 overlapping groups, in one thread. Peers are asked
for fewer rows, one after the other; seconds are those of a row, the first call left out. They are
CPU time, since the machine may have other work to do; all packages compute in one thread.
"""

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

import localconformal as lc
from benchmarks.harness import describe_machine, seed_of
from benchmarks.quality.datasets import read
from benchmarks.tables import markdown_table

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
STYLE, PICTURE = DOCS / "pictures.mplstyle", DOCS / "images" / "groups.png"
COLOURS = {"conditional": "#0f7b6c", "split": "#e08a1e", "Mondrian, first group": "#5b6770"}
LEVEL, N_GROUPS = 0.9, 20
SHARES = (0.4, 0.8)
#: Calibration rows of the comparison with peers, and of the look at larger ones.
SIZES, BESIDE_PEERS = (1_000, 3_000, 10_000, 30_000, 100_000), 3_000


def upper_quarter(X, column):
    """Whether a row is among the upper quarter of a column, as near as its ties allow."""
    edge = np.quantile(X[:, column], 0.75)
    return edge if np.mean(X[:, column] >= edge) <= 0.5 else np.nextafter(edge, np.inf)


def above(column, edge, X):
    return X[:, column] >= edge


def groups_of(X):
    """20 functions of X, by columns at even steps among those with an upper quarter."""
    edges = [upper_quarter(X, column) for column in range(X.shape[1])]
    shares = [np.mean(above(j, edge, X)) for j, edge in enumerate(edges)]
    usable = [j for j, share in enumerate(shares) if 0.1 <= share <= 0.5]
    chosen = np.unique(np.linspace(0, len(usable) - 1, N_GROUPS).round().astype(int))
    return [partial(above, usable[k], edges[usable[k]]) for k in chosen]


def methods(groups):
    model = Ridge()
    return {
        "conditional": lc.ConditionalConformalRegressor(model, groups=groups),
        "conditional, randomised": lc.ConditionalConformalRegressor(
            model, groups=groups, randomised=True
        ),
        "split": lc.SplitConformalRegressor(model),
        "Mondrian, first group": lc.MondrianConformalRegressor(model, groups=groups[0]),
    }


def one_split(X, y, groups, seed):
    """Coverage of the test rows in each group, and the mean finite length, by method."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, held, test = np.split(order, [int(share * len(y)) for share in SHARES])
    inside = np.array([group(X[test]) for group in groups])
    found = {}
    for name, model in methods(groups).items():
        model.set_params(calibration_size=None, random_state=seed).fit(X[train], y[train])
        model.conformalize(X[held], y[held])
        lower, upper = model.predict_interval(X[test]).T
        covered, length = (lower <= y[test]) & (y[test] <= upper), upper - lower
        finite = np.isfinite(length)
        by_group = [covered[one].mean() if one.any() else np.nan for one in inside]
        found[name] = [*by_group, covered.mean(), length[finite].mean(), 1 - finite.mean()]
    return found


def coverage(name, n_splits):
    """By method: mean coverage of each group over the splits, and which are below by chance."""
    rows = read(name)
    X, y = rows.X, rows.y
    groups = groups_of(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        splits = [one_split(X, y, groups, seed_of(name, k)) for k in range(n_splits)]
    z, result = float(norm.isf(0.05 / len(groups))), {}
    for method in splits[0]:
        each = np.array([split[method] for split in splits])
        mean, error = np.nanmean(each, axis=0), np.nanstd(each, axis=0, ddof=1) / np.sqrt(n_splits)
        low = mean[:-3] + z * error[:-3] < LEVEL
        result[method] = {
            "coverage_by_group": mean[:-3].round(4).tolist(),
            "standard_errors": error[:-3].round(4).tolist(),
            "groups_below": int(low.sum()),
            "coverage": round(float(mean[-3]), 4),
            "mean_finite_length": round(float(mean[-2]), 4),
            "share_infinite": round(float(mean[-1]), 5),
        }
    shares = [float(np.mean(group(X))) for group in groups]
    return {"rows": len(y), "shares": np.round(shares, 3).tolist(), "methods": result}


# ---- speed --------------------------------------------------------------------------------------


def phi(X):
    """The features of a row are its columns."""
    return np.asarray(X)


def problem(n, d=20, seed=0):
    """X (n, d): a constant and overlapping groups; y with noise that the groups share."""
    rng = np.random.default_rng([seed, n, d])
    X = np.column_stack([np.ones(n), rng.random((n, d - 1)) < 0.3]).astype(float)
    return X, (1.0 + X[:, 1] + 0.5 * X[:, 2]) * rng.normal(size=n)


def zero_model(X):
    return FrozenEstimator(
        DummyRegressor(strategy="constant", constant=0.0).fit(X, np.zeros(len(X)))
    )


def ours(X, y):
    """Our own."""
    model = lc.ConditionalConformalRegressor(
        zero_model(X), features=phi, calibration_size=None, n_jobs=1
    )
    # Labels, and so the columns, come from other rows than those that calibrate.
    model.fit(*problem(1_000, X.shape[1], seed=3))
    start = time.process_time()
    model.conformalize(X, y)
    return time.process_time() - start, lambda rows: model.predict_interval(rows)[:, 1]


def mapie(X, y):
    """MAPIE's exact mode."""
    from mapie.conditional_conformal_prediction import ConditionalSplitConformalRegressor

    model = ConditionalSplitConformalRegressor(phi, zero_model(X), LEVEL, exact=True)
    start = time.process_time()
    model.conformalize(X, y)
    return time.process_time() - start, lambda rows: model.predict_interval(
        rows, allow_infinite_bounds=True
    )[1][:, 1, 0]


def conditionalconformal(X, y, exact=True):
    """The authors' package, exact or by binary search."""
    from conditionalconformal import CondConf

    model = CondConf(lambda x, y: np.abs(y), phi)
    start = time.process_time()
    model.setup_problem(X, y)

    def ask(rows):
        return np.array(
            [
                float(np.squeeze(model.predict(LEVEL, row[None], lambda cut, x: cut, exact=exact)))
                for row in rows
            ]
        )

    return time.process_time() - start, ask


def conditionalconformal_by_search(X, y):
    return conditionalconformal(X, y, exact=False)


def seconds_each(make, n, n_rows, d=20, repeats=3):
    """Seconds to calibrate, seconds per distinct new row (the best of some), and the answers."""
    X, y = problem(n, d)
    # As many distinct rows as are asked for: no answer serves two.
    new = np.unique(problem(8 * n_rows, d, seed=1)[0], axis=0)
    new = np.random.default_rng(0).permutation(new)[:n_rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit, ask = make(X, y)
        ask(new[:2])
        best = np.inf
        for _ in range(repeats):
            start = time.process_time()
            answers = ask(new)
            best = min(best, (time.process_time() - start) / len(new))
    return fit, best, answers


def speed(peers):
    """Beside peers at one size, alone over sizes, and 100,000 rows at once."""
    found = {"sizes": [], "beside": {}}
    for n in SIZES:
        fit, each, _ = seconds_each(ours, n, 2_000)
        found["sizes"].append(
            {"n": n, "calibrate_s": round(fit, 4), "row_us": round(1e6 * each, 2)}
        )
    fit, each, _ = seconds_each(ours, BESIDE_PEERS, 2_000)
    found["beside"]["localconformal"] = {
        "calibrate_s": round(fit, 4),
        "row_us": round(1e6 * each, 2),
    }
    for make in peers:
        try:
            n_rows = 40
            peer_fit, peer, answers = seconds_each(make, BESIDE_PEERS, n_rows, repeats=1)
        except (ImportError, ValueError) as error:
            found["beside"][make.__name__] = {"failed": " ".join(str(error).split())}
            continue
        _, _, mine = seconds_each(ours, BESIDE_PEERS, n_rows, repeats=1)
        found["beside"][make.__name__] = {
            "calibrate_s": round(peer_fit, 4),
            "row_us": round(1e6 * peer, 1),
            "times_ours": round(peer / each, 1),
            "rows_that_differ": int(np.sum(~np.isclose(answers, mine, rtol=1e-6, atol=1e-9))),
            "rows": n_rows,
        }
    X, y = problem(BESIDE_PEERS)
    _, ask = ours(X, y)
    new = problem(100_000, seed=2)[0]
    ask(new[:2])
    start, cpu = time.perf_counter(), time.process_time()
    ask(new)
    found["hundred_thousand_rows_s"] = round(time.perf_counter() - start, 3)
    found["hundred_thousand_rows_cpu_s"] = round(time.process_time() - cpu, 3)
    found["distinct_among_them"] = len(np.unique(new, axis=0))
    return found


# ---- results ------------------------------------------------------------------------------------


def page(found):
    """The results in Markdown."""
    lines = ["# Coverage in overlapping groups, and its cost", "", f"`{found['command']}`", ""]
    for name, table in found["coverage"].items():
        lines += [f"## {name}: {table['rows']:,} rows, 20 groups, {found['splits']} splits", ""]
        rows = [
            {
                "method": method,
                "lowest group": f"{100 * min(one['coverage_by_group']):.1f} %",
                "groups below 90 % by more than chance": one["groups_below"],
                "all rows": f"{100 * one['coverage']:.1f} %",
                "mean finite length": f"{one['mean_finite_length']:.4g}",
                "infinite": f"{100 * one['share_infinite']:.2f} %",
            }
            for method, one in table["methods"].items()
        ]
        lines += [markdown_table(rows)]
    cost = found["speed"]
    lines += ["## 3,000 calibration rows, 20 columns, one thread, CPU time", ""]
    rows = [{"package": name} | one for name, one in cost["beside"].items()]
    lines += [markdown_table(rows), "## Over calibration rows, 20 columns", ""]
    lines += [markdown_table(cost["sizes"])]
    lines += [
        f"100,000 new rows, {cost['distinct_among_them']:,} of them distinct: "
        f"{cost['hundred_thousand_rows_cpu_s']} s of CPU time, {cost['hundred_thousand_rows_s']} s "
        f"on the clock at a load of {found['machine']['load_average'][0]:.0f} on 2 cores.",
        "",
    ]
    return "\n".join(lines)


def draw(found, file):
    """Coverage of each group with its 95 % interval, by table and method, groups in order."""
    figure = Figure(figsize=(6.6, 3.2), layout="constrained")
    axes = figure.subplots(1, len(found["coverage"]), sharey=True, squeeze=False)[0]
    for ax, (name, table) in zip(axes, found["coverage"].items(), strict=True):
        for method, colour in COLOURS.items():
            one = table["methods"][method]
            mean, error = 100 * np.array([one["coverage_by_group"], one["standard_errors"]])
            order = np.argsort(mean)
            place = np.arange(len(mean)) + 0.2 * list(COLOURS).index(method)
            bars = {"fmt": "o", "ms": 3, "lw": 1, "color": colour, "label": method}
            ax.errorbar(place, mean[order], 1.96 * error[order], **bars)
        ax.axhline(100 * LEVEL, color="#2b2d42", lw=1, ls=(0, (4, 2)))
        ax.set(title=name, xlabel="groups, from the lowest coverage on", xticks=[])
    axes[0].set_ylabel("coverage, %")
    axes[-1].legend(loc="upper left")
    figure.savefig(file, pil_kwargs={"optimize": True})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--tables", nargs="+", default=["community", "star"])
    parser.add_argument("--only", choices=["coverage", "speed"], help="keep the other part")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    stored = args.out / "conditional.json"
    found = json.loads(stored.read_text()) if args.only else {}
    found["command"] = "python -m benchmarks.conditional"
    if args.only != "speed":
        found |= {"splits": args.splits}
        found["coverage"] = {name: coverage(name, args.splits) for name in args.tables}
    if args.only != "coverage":
        found["speed"] = speed([mapie, conditionalconformal, conditionalconformal_by_search])
    found["machine"] = describe_machine()
    stored.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (args.out / "conditional.md").write_text(page(found), encoding="utf-8")
    with matplotlib.style.context(STYLE):
        draw(found, PICTURE)
    print(page(found))


if __name__ == "__main__":
    main()
