"""``localconformal demo``: what the library does, on data whose true quantiles are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localconformal.cli.console import Json, Out, Seed, numbers_table, prose, show
from localconformal.progress import stage
from localconformal.text import say_level, say_number

if TYPE_CHECKING:
    from localconformal.audit import Comparison

_N_TRAIN, _N_TEST, _CONFIDENCE_LEVEL = 2000, 5000, 0.9
_LEVEL = say_level(_CONFIDENCE_LEVEL)
EDGES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
SPLIT, _CQR, SLCP, ORACLE = "Split conformal", "CQR", "SLCP", "True quantiles"
#: Numbers shown per method, in addition to its coverage by region.
_SHOWN = ("coverage", "mean_length", "interval_score")


def demo(out: Out = Path("localconformal-demo"), seed: Seed = 0, as_json: Json = False) -> None:
    """Compare SLCP, CQR and split conformal where the truth is known.

    Simulates data whose noise grows with x; takes a few seconds. Writes demo.png and report.html.

    \b
    Example:  localconformal demo --out my-demo
    """
    from localconformal.audit import compare
    from localconformal.io.files import check_outputs, write_together

    files = {"plot": out / "demo.png", "report": out / "report.html"}
    check_outputs(files.values())
    with stage("", 5) as on_step:
        X, y, bands, slcp = _fit_methods(seed, on_step)
        on_step("measuring")
        compared = compare(bands, X, y, confidence_level=_CONFIDENCE_LEVEL)
        on_step("writing")
        writers = (partial(_draw, X, y, bands), partial(_report, X, y, bands[SLCP], slcp, compared))
        write_together(dict(zip(files.values(), writers, strict=True)))
    inside = [(X[:, 0] >= left) & (X[:, 0] < right) for left, right in pairwise(EDGES)]
    rows = {
        method.name: {
            **{name: getattr(method.summary, name) for name in _SHOWN},
            "by_region": [float(method.coverage[region].mean()) for region in inside],
        }
        for method in compared.methods
    }
    said = _conclusion(rows)
    document = {"confidence_level": _CONFIDENCE_LEVEL, "rows": {"fit": _N_TRAIN, "new": _N_TEST}}
    document |= {"edges_of_regions": EDGES, "methods": rows, "conclusion": said, "files": files}
    show(document, [_table(rows), prose(said), ""], as_json)


def _fit_methods(seed: int, on_step: Callable[[str], None]) -> tuple[Any, Any, dict[str, Any], Any]:
    """Test rows (5000, 1), y, the intervals of each method and the true ones, the SLCP model."""
    import numpy as np
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    import localconformal as lc

    simulation, rng = lc.datasets.load_simulation("sim2"), np.random.default_rng(seed)
    train, (X, y) = simulation.sample(_N_TRAIN, rng), simulation.sample(_N_TEST, rng)
    # The paper's kernel is at its best with one feature.
    methods: dict[str, Any] = {
        SPLIT: lc.SplitConformalRegressor,
        _CQR: lc.ConformalizedQuantileRegressor,
        SLCP: partial(lc.SLCPRegressor, law=lc.KernelLaw(bandwidth="cv")),
    }
    bands, tail = {}, (1.0 - _CONFIDENCE_LEVEL) / 2.0
    # On so few rows a second thread costs more than it gains, especially on a busy machine.
    with threadpool_limits(limits=1):
        for name, method in methods.items():
            on_step(name)
            # Small trees give bands that look smooth; with the defaults the ranking is the same.
            trees = {"max_leaf_nodes": 8, "min_samples_leaf": 50, "random_state": seed}
            loss = {"loss": "quantile", "quantile": 0.5} if name == _CQR else {}
            base = HistGradientBoostingRegressor(**trees, **loss)
            model = method(base, confidence_level=_CONFIDENCE_LEVEL, random_state=seed)
            bands[name] = model.fit(*train).predict_interval(X)
    return X, y, {**bands, ORACLE: simulation.quantile(X, [tail, 1.0 - tail])}, model


def _table(rows: dict[str, dict[str, Any]]) -> Any:
    from rich.text import Text

    made = numbers_table(
        f"{_LEVEL} intervals: {_N_TRAIN:,} rows to fit, {_N_TEST:,} new rows",
        "Coverage in %, overall and by region of x. Score: length plus a penalty per miss.",
        *("", "coverage", "mean\nlength", "interval\nscore"),
        *(f"x in\n{left:g}-{right:g}" for left, right in pairwise(EDGES)),
    )
    for name, row in rows.items():
        shares = []
        for share in row["by_region"]:
            off = share - _CONFIDENCE_LEVEL
            # Regions hold about 1,000 test rows: a larger gap is not chance.
            colour = "green" if abs(off) <= 0.03 else "red" if off < 0 else "yellow"
            shares.append(Text(f"{100 * share:.0f}", style=colour))
        style = "bold" if name == SLCP else "dim" if name == ORACLE else ""
        numbers = (say_number(row[number]) for number in _SHOWN[1:])
        first = (Text(name, style=style), f"{100 * row['coverage']:.1f}")
        made.add_row(*first, *numbers, *shares, end_section=name == SLCP)
    return made


def _conclusion(rows: dict[str, dict[str, Any]]) -> str:
    shares = [sorted(100 * share for share in rows[name]["by_region"]) for name in (SPLIT, SLCP)]
    (low, *_, high), (least, *_, most) = shares
    fixed, local, ideal = (say_number(rows[name]["mean_length"]) for name in (SPLIT, SLCP, ORACLE))
    return (
        f"Every method covers about {_LEVEL} of new rows on average; they differ by region. The "
        f"noise grows with x: one width for all (split conformal) covers {high:.0f} % of one "
        f"region and only {low:.0f} % of another, while SLCP stays between {least:.0f} and "
        f"{most:.0f} %. Mean length: {local} for SLCP, {fixed} for split conformal, {ideal} for "
        "the true quantiles."
    )


def _draw(X: Any, y: Any, bands: dict[str, Any], path: Path) -> None:
    from localconformal.plots import plot_comparison

    title = f"The same {_LEVEL} promise, three ways to keep it"
    shown = {name: band for name, band in bands.items() if name != ORACLE}
    options: dict[str, Any] = {"oracle": bands[ORACLE], "title": title}
    axes, _ = plot_comparison(X, y, shown, EDGES, confidence_level=_CONFIDENCE_LEVEL, **options)
    axes[0, 0].figure.savefig(path, dpi=100, pil_kwargs={"optimize": True})


def _report(X: Any, y: Any, intervals: Any, model: Any, compared: Comparison, path: Path) -> None:
    import pandas as pd

    from localconformal.audit import audit
    from localconformal.report import write_report

    rows = {"X": pd.DataFrame(X, columns=["x"]), "y": y, "intervals": intervals}
    methods = tuple(method for method in compared.methods if method.name != ORACLE)
    write_report(
        audit(**rows, confidence_level=_CONFIDENCE_LEVEL),
        path,
        **rows,
        model=model,
        title="The demo: SLCP on simulated data whose noise grows with x",
        comparison=replace(compared, methods=methods),
        y_pred=model.predict(X),
        group_hint="",
    )
