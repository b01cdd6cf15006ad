"""Individual rows: sorted intervals, length against error, weights of rows, parts of a width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.explanation import read_explained, weights_between
from localconformal.laws.base import effective_size
from localconformal.metrics import coverage, length_error_corr
from localconformal.metrics.intervals import (
    check_one_level,
    check_prediction,
    is_covered,
    open_end,
    size_bins,
    tied_lengths,
)
from localconformal.plots import _axes as art
from localconformal.quantiles import Array, weighted_quantile
from localconformal.rows import Rows, is_frame, stack_rows
from localconformal.text import say_level, say_number, say_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW, _QUANTILE = "row", "quantile"
_MAX_BINS, _FEWEST_ROWS = 10, 20


def plot_sorted(
    y: ArrayLike,
    intervals: ArrayLike,
    *,
    y_pred: ArrayLike | None = None,
    max_points: int = 400,
    random_state: int = 0,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw each row's interval as a line and its y as a point, the shortest interval first.

    Both are drawn relative to the prediction, and missed rows are marked. With one side, the bound
    nearest to the prediction comes first. The frame has one row per drawn row: row (its position in
    y), y, prediction, lower, upper, length, covered.

    Parameters
    ----------
    y, intervals : arrays of shapes (n,) and (n, 2)
    y_pred : array of shape (n,), default=None
        Point predictions; None is the centre of each interval, or y for an infinite one.
    max_points, random_state : int
        Most rows drawn; if there are more, a random sample with this seed.
    ax : matplotlib axes, default=None

    Examples
    --------
    >>> ax, frame = plot_sorted([0.5, 3.0, 1.0], [[0, 3], [0, 2], [0, 1]])
    >>> frame["row"].tolist(), frame["covered"].tolist()
    ([2, 1, 0], [True, False, True])
    """
    art.check_packages("plot_sorted")
    response, bounds = check_one_level(y, intervals)
    import pandas as pd

    rows, length = art.drawn_rows(len(response), max_points, random_state), tied_lengths(bounds)
    columns: dict[str, Any] = {"y": response, "prediction": _centres(response, bounds, y_pred)}
    columns |= {"lower": bounds[:, 0], "upper": bounds[:, 1], "length": length}
    columns["covered"] = is_covered(response, bounds)
    frame = pd.DataFrame({"row": rows} | {name: one[rows] for name, one in columns.items()})
    by, size = "length", length
    if (end := open_end(bounds)) is not None:
        outward = -1.0 if end else 1.0
        by, size = "bound", outward * (bounds[:, 1 - end] - columns["prediction"])
    frame = frame.iloc[np.argsort(size[rows], kind="stable")].reset_index(drop=True)
    ax = art.make_axes(ax)
    _draw_sorted(ax, frame, by)
    share, n = say_share(float(coverage(response, bounds))), len(response)
    said = [f"{share} of {n:,} rows are covered.", art.say_drawn(len(rows), n)]
    if len(length) > 1 and np.isfinite(length[0]) and len(set(length)) == 1:
        said.append("All intervals have the same length: rows keep their order.")
    where = ", relative to y, as they have no centre" if y_pred is None else ""
    art.caption(ax, [*said, art.say_odd(bounds, f"drawn to the edge{where}")])
    return ax, frame


def _centres(y: Array, bounds: Array, y_pred: ArrayLike | None) -> Array:
    """Predictions (n,): those given, else the centres of the intervals, else y."""
    if y_pred is not None:
        return check_prediction(y_pred, len(y))
    finite, centre = np.isfinite(bounds).all(axis=1), y.copy()
    centre[finite] = bounds[finite].mean(axis=1)
    return centre


def _draw_sorted(ax: Axes, frame: Any, by: str) -> None:
    base = frame["prediction"].to_numpy()
    y, bounds = frame["y"].to_numpy() - base, frame[["lower", "upper"]].to_numpy() - base[:, None]
    low, high = art.extent(y, bounds)
    cut, rank = art.drawable(bounds, low, high), np.arange(1, len(frame) + 1)
    covered, width = frame["covered"].to_numpy(), float(np.clip(350.0 / len(frame), 0.5, 3.0))
    for chosen, line, point, size, marker, label in (
        (covered, art.MAIN, art.INK, 6, "o", "y, covered"),
        (~covered, art.MISS, art.MISS, 26, "X", "y, missed"),
    ):
        if chosen.any():
            ax.vlines(rank[chosen], *cut[chosen].T, color=line, lw=width, alpha=0.45)
            look: dict[str, Any] = {"color": point, "s": size, "marker": marker, "label": label}
            ax.scatter(rank[chosen], y[chosen], lw=0, zorder=3, **look)
    ax.set_ylim(low, high)
    ax.set_xlim(0.0, len(frame) + 1.0)
    ax.locator_params(axis="x", integer=True)
    above: dict[str, Any] = {"ncols": 2, "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.0}
    art.finish(ax, f"rows, sorted by {by}", "y - prediction", loc="lower left", **above)


def plot_length_error(
    y: ArrayLike,
    intervals: ArrayLike,
    confidence_level: float = 0.9,
    *,
    y_pred: ArrayLike | None = None,
    max_points: int = art.MAX_POINTS,
    random_state: int = 0,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw |y - prediction| against length, with its quantile in bins of the length.

    If intervals adapt well, the quantile curve follows the line error = length / 2; rows above the
    line are missed, if intervals are symmetric. Infinite intervals are left out. The frame has kind
    ("row", or "quantile" of a bin), length, error, n (rows), coverage (0 or 1 for a row).

    Parameters
    ----------
    y, intervals, y_pred, max_points, random_state, ax
        As in `plot_sorted`, but up to 5,000 rows; the curve uses all rows.
    confidence_level : float, default=0.9
        Level of the intervals, and of the quantile of the errors.

    Examples
    --------
    >>> intervals = [[-1.0, 1.0], [-2.0, 2.0], [-3.0, 3.0]]
    >>> ax, frame = plot_length_error([0.5, -1.0, 1.5], intervals)
    >>> frame.loc[frame["kind"] == "row", "error"].tolist()
    [0.5, 1.0, 1.5]
    """
    art.check_packages("plot_length_error")
    import pandas as pd

    response, bounds = check_one_level(y, intervals)
    finite = np.isfinite(bounds).all(axis=1)
    error = np.abs(response - _centres(response, bounds, y_pred))[finite]
    length, covered = tied_lengths(bounds)[finite], is_covered(response, bounds)[finite]
    n_bins = int(np.clip(len(length) // _FEWEST_ROWS, 1, _MAX_BINS))
    # No bins if every interval is infinite.
    bins, records = size_bins(length, n_bins) if len(length) else np.full(1, -1), []
    for code in range(bins.max() + 1):
        inside = bins == code
        errors, n = error[inside], int(inside.sum())
        quantile = float(weighted_quantile(errors, np.ones(n), confidence_level))
        records.append((_QUANTILE, length[inside].mean(), quantile, n, covered[inside].mean()))
    rows = art.drawn_rows(len(error), max_points, random_state)
    drawn = {"length": length[rows], "error": error[rows], "n": 1, "coverage": covered[rows] + 0.0}
    parts = [pd.DataFrame({"kind": _ROW, **drawn}), pd.DataFrame(records, columns=["kind", *drawn])]
    frame = pd.concat(parts[: 1 + bool(records)], ignore_index=True)
    ax = art.make_axes(ax)
    _draw_errors(ax, frame, confidence_level)
    found = float(length_error_corr(response, bounds, y_pred))
    said = "undefined" if np.isnan(found) else f"{found:.2f}"
    odd = art.say_odd(bounds, infinite="and left out").replace("and not drawn", "of length 0")
    said = f"Correlation of length and error: {said}."
    art.caption(ax, [said, art.say_drawn(len(rows), len(error)), odd])
    return ax, frame


def _draw_errors(ax: Axes, frame: Any, level: float) -> None:
    """Points, the curve, and the line that separates covered rows from missed ones."""
    rows = frame[frame["kind"] == _ROW]
    for inside, colour, size, marker, label in (
        (1.0, art.POINT, 6, "o", None),
        (0.0, art.MISS, 12, "X", "missed"),
    ):
        part = rows[rows["coverage"] == inside]
        if len(part):
            look: dict[str, Any] = {"color": colour, "s": size, "marker": marker, "label": label}
            ax.scatter(part["length"], part["error"], alpha=0.5, lw=0, **look)
    bins = frame[frame["kind"] == _QUANTILE]
    look = {"color": art.SECOND, "marker": "s", "ms": 4.5, "label": f"{say_level(level)} quantile"}
    ax.plot(bins["length"], bins["error"], **look)
    length = frame["length"] if len(frame) else np.zeros(1)
    shortest, longest = float(length.min()), float(length.max()) or 1.0
    room = 0.04 * (longest - shortest) or 0.1 * longest
    ends = np.array([max(shortest - room, 0.0), longest + room])
    ax.plot(ends, ends / 2.0, color=art.INK, lw=1.0, ls=art.IDEAL, label="length / 2")
    ax.set_xlim(*ends)
    ax.set_ylim(bottom=0.0)
    art.finish(ax, "length", "error, |y - prediction|", loc="upper left")


def plot_local_weights(
    model: Any,
    x: Any,
    X: Any,
    v: ArrayLike | None = None,
    *,
    feature: int | str = 0,
    max_points: int = art.MAX_POINTS,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw the weight of each row of X for the local law at x, over one feature.

    The weight is H(x, X_i) / sum_j H(x, X_j), with H the kernel behind the fitted law: its
    kernel at the distance of two rows, or the share of trees in which both are in the same leaf
    (with ``law="auto"``, small leaves count more). The effective sample size is
    (sum w)^2 / sum w^2. The frame has one row per drawn row, the lightest first: row (its position
    in X), x and position (on the axis), v if given, weight.

    Parameters
    ----------
    model : fitted regressor or fitted law
        One with weights on rows: a kernel, forest or uniform law, or ``law="auto"``.
    x : array of shape (d,) or (1, d), or frame of one row
    X : array of shape (n, d) or frame, such as the training rows: models keep none
    v : array of shape (n,), default=None
        Scores of the rows of X, for the vertical axis; None puts the weight there.
    feature : int or str, default=0
        Column of X on the axis.
    max_points : int, default=5000
        Most rows drawn, the heaviest ones. All rows are weighted.
    ax : matplotlib axes, default=None

    Examples
    --------
    >>> from localconformal import KernelLaw
    >>> X = np.arange(9.0)[:, None]
    >>> law = KernelLaw(kernel="boxcar", bandwidth=0.5).fit(X, np.zeros(9))
    >>> ax, frame = plot_local_weights(law, [4.0], X)
    >>> frame.loc[frame["weight"] > 0, "row"].tolist()
    [3, 4, 5]
    """
    art.check_packages("plot_local_weights")
    import pandas as pd

    query = _one_row(x, X)
    found = weights_between(model)(Rows(query), Rows(X))[0]
    weights = found / found.sum() if found.sum() > 0.0 else np.zeros(len(found))
    # x is the first row of the column on the axis.
    column = art.pick_feature(stack_rows(query, X), feature)
    scores = None if v is None else np.asarray(v, dtype=np.float64)
    if scores is not None and scores.shape != (len(X),):
        raise ValueError(f"v: got shape {scores.shape}; expected ({len(X)},), one score per row.")
    rows = np.argsort(weights, kind="stable")[max(len(weights) - max_points, 0) :]
    drawn = column.take(rows + 1)
    columns: dict[str, Any] = {"row": rows, "x": drawn.values, "position": drawn.positions(rows)}
    if scores is not None:
        columns["v"] = scores[rows]
    frame = pd.DataFrame({**columns, "weight": weights[rows]})
    ax = art.make_axes(ax, (6.8, 4.4))
    upwards = "weight" if scores is None else "v"
    _draw_weights(ax, frame, upwards)
    art.finish(ax, "", upwards)
    art.dress_axis(ax, column)
    place = float(column.take(np.array([0])).positions()[0])
    ax.axvline(place, color=art.MISS, lw=1.2, ls=art.IDEAL, zorder=0)
    n, size = len(weights), float(effective_size(weights[None])[0])
    heard = f"{np.sum(weights > 0):,} of {n:,} rows have weight"
    heaviest = f"the heaviest {say_share(float(weights.max()))} of all"
    said = f"Effective sample size {say_number(size)}: {heard}, {heaviest}."
    if size == 0.0:
        said = f"None of {n:,} rows counts for this x: all weights are 0."
    some = art.say_drawn(len(rows), n, "the heaviest")
    lost = art.say_lost(int(frame["position"].isna().sum()))
    art.caption(ax, ["Dashed: x.", said, some, lost])
    return ax, frame


def _one_row(x: Any, X: Any) -> Any:
    if is_frame(X) != is_frame(x):
        got = f"got x as a {type(x).__name__} and X as a {type(X).__name__}"
        raise ValueError(f"{got}; expected the same kind: pass one row of a frame as X[:1].")
    row = x if is_frame(x) else np.atleast_2d(np.asarray(x))
    if len(row) != 1 or len(X) == 0 or np.shape(row)[1] != np.shape(X)[1]:
        got = f"got x of shape {np.shape(row)} and X of shape {np.shape(X)}"
        raise ValueError(f"{got}; expected one row x, and rows of X with the same columns.")
    return row


def _draw_weights(ax: Axes, frame: Any, upwards: str) -> None:
    """Rows without weight are faint; heavier ones are larger and darker."""
    silent, heard = frame[frame["weight"] == 0.0], frame[frame["weight"] > 0.0]
    ax.scatter(silent["position"], silent[upwards], s=7, color=art.FAINT, lw=0, zorder=1)
    if len(heard):
        weight, size = heard["weight"], 8.0 + 40.0 * heard["weight"] / heard["weight"].max()
        look: dict[str, Any] = {"cmap": art.WEIGHT_COLOURS, "lw": 0.3, "edgecolors": art.INK}
        look |= {"s": size, "c": weight, "vmin": 0.0, "zorder": 2}
        points = ax.scatter(heard["position"], heard[upwards], **look)
        if upwards != "weight":
            bar = ax.figure.colorbar(points, ax=ax, pad=0.02, aspect=30)
            bar.set_label("weight", color=art.INK, fontsize=art.LABEL_SIZE)
            bar.outline.set_visible(False)
            bar.ax.tick_params(colors=art.INK, labelsize=art.SMALL_SIZE, color=art.FAINT)
    if upwards == "weight":
        ax.set_ylim(bottom=0.0)


def plot_width(
    explained: Any, row: int | None = None, *, max_features: int = 10, ax: Axes | None = None
) -> tuple[Axes, Any]:
    """Draw what each feature adds to the width of one row, or on average over all rows.

    For one row, bars lead from ``base``, the mean width of background rows, to the row's width,
    starting with the largest part. Without a row, bars are means of the parts' sizes. The frame has
    one line per bar: feature, part, start and stop.

    Parameters
    ----------
    explained : frame
        The result of `explain_width`.
    row : int or None, default=None
        Position of the row in the frame.
    max_features : int, default=10
        Most bars; all other features together are one more.
    ax : matplotlib axes, default=None

    Examples
    --------
    >>> import pandas as pd
    >>> found = pd.DataFrame({"a": [1.0, -1.0], "b": [0.5, 2.0], "base": 3.0, "width": [4.5, 4.0]})
    >>> ax, frame = plot_width(found, row=0)
    >>> frame["feature"].tolist(), float(frame["stop"].iloc[-1])
    (['a', 'b'], 4.5)
    """
    art.check_packages("plot_width")
    import pandas as pd

    names, parts, base, width = read_explained(explained)
    if row is not None and not 0 <= row < len(parts):
        raise ValueError(f"got row={row!r}; expected a position from 0 to {len(parts) - 1}.")
    known = np.isfinite(parts).all(axis=1) if row is None else np.isfinite(parts[[row]]).all(axis=1)
    if not known.any():
        raise ValueError("got only infinite widths, which have no parts; explain other rows.")
    found = np.abs(parts[known]).mean(axis=0) if row is None else parts[row]
    order = np.argsort(-np.abs(found), kind="stable")
    first, rest = order[:max_features], order[max_features:]
    labels, values = [art.plain(names[j]) for j in first], [*found[first]]
    if len(rest):
        labels, values = [*labels, f"{len(rest)} others"], [*values, found[rest].sum()]
    stop = np.cumsum(values) + base[row] if row is not None else np.array(values)
    start = stop - np.array(values)
    frame = pd.DataFrame({"feature": labels, "part": values, "start": start, "stop": stop})
    ax = art.make_axes(ax, (6.4, 1.4 + 0.3 * len(labels)))
    # Sizes have no sign to show.
    colours = np.where(frame["part"] < 0.0, art.SECOND, art.MAIN if row is None else art.MISS)
    ax.barh(range(len(frame)), stop - start, left=start, color=colours, height=0.62)
    ax.set_yticks(range(len(frame)), labels)
    ax.invert_yaxis()
    ax.margins(x=0.05)
    if row is None:
        art.finish(ax, "mean size of the part of the width", "")
        mean = say_number(float(width[known].mean()))
        said = [f"Mean of {int(known.sum()):,} rows; their mean width is {mean}."]
    else:
        for end, look in ((base[row], art.IDEAL), (width[row], "-")):
            ax.axvline(end, color=art.INK, lw=1.0, ls=look, zorder=0)
        art.finish(ax, "width", "")
        said = [f"Dashed: {say_number(base[row])}, the mean width of background rows."]
        said += [f"Line: {say_number(width[row])}, the width of this row."]
    art.caption(ax, said)
    return ax, frame
