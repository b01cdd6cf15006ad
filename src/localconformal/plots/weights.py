"""Which rows speak for one x, and with what weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from localconformal.engine.kernels import effective_sample_size
from localconformal.frames import is_frame, stack_rows
from localconformal.laws.base import BaseLaw
from localconformal.laws.localizer import Localizer, NeighborsLocalizer
from localconformal.plots._axes import (
    FAINT,
    IDEAL,
    INK,
    LABEL_SIZE,
    MAX_POINTS,
    MISS,
    SMALL_SIZE,
    WEIGHT_COLOURS,
    Feature,
    caption,
    check_packages,
    drawn_rows,
    dress_axis,
    finish,
    make_axes,
    pick_feature,
    say_drawn,
)
from localconformal.quantiles import Array
from localconformal.text import say_number, say_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Its multiples, modulo 1, spread evenly.
GOLDEN = 0.6180339887498949


def plot_local_weights(
    model: Any,
    x: Any,
    X: Any,
    v: ArrayLike | None = None,
    *,
    feature: int | str | Sequence[int | str] = 0,
    max_points: int = MAX_POINTS,
    random_state: int = 0,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw the weight with which each row of X speaks for x, over one feature or two.

    The weight is H(x, X_i) / sum_j H(x, X_j), with H the kernel behind the fitted law: its
    kernel at the distance of two rows, whether X_i is among the neighbours of x, the share of
    trees in which the two are in one leaf. Models keep no reference rows, so that X has the
    rows to show, such as those of training. The effective sample size is (sum w)^2 / sum w^2.

    Parameters
    ----------
    model : fitted regressor or fitted law
        With a kernel between rows: a kernel, neighbors, forest or uniform law.
    x : array of shape (d,) or (1, d), or frame of one row
    X : array of shape (n, d) or frame
    v : array of shape (n,), default=None
        Scores of the rows of X, such as y - prediction: drawn upwards over one feature. None
        draws the weight upwards.
    feature : int, str or pair of them, default=0
        Columns of X on the axes.
    max_points, random_state : int
        Rows drawn: the heaviest half, and others at random with this seed. All rows are weighed.
    ax : matplotlib axes, default=None

    Returns
    -------
    ax : matplotlib axes
    frame : pandas.DataFrame
        One row for each row drawn, the lightest first: row (its place in X), x and position (on
        the axis), x2 and position2 of a second feature, v if given, weight.

    Examples
    --------
    >>> from localconformal import KernelLaw
    >>> X = np.arange(9.0)[:, None]
    >>> law = KernelLaw(kernel="boxcar", bandwidth=0.5).fit(X, np.zeros(9))
    >>> ax, frame = plot_local_weights(law, [4.0], X)
    >>> frame.loc[frame["weight"] > 0, "row"].tolist()
    [3, 4, 5]
    """
    check_packages("plot_local_weights")
    query = _one_row(x, X)
    weights = _row_weights(_find_localizer(model), query, X)
    # x is the first row of each column on the axes.
    asked: list[Any] = [feature] if np.ndim(feature) == 0 else list(feature)  # type: ignore[arg-type]
    if len(asked) not in (1, 2):
        raise ValueError(f"feature is {feature!r}; one column, or two, were expected.")
    shown = [pick_feature(stack_rows(query, X), name) for name in asked]
    scores = _check_scores(v, len(X), len(shown))
    rows = _heavy_rows(weights, max_points, random_state)
    frame = _weights_frame([column.take(rows + 1) for column in shown], rows, weights, scores)
    ax = make_axes(ax, (6.8, 4.4))
    upwards = "position2" if len(shown) == 2 else "weight" if scores is None else "v"
    _draw_weights(ax, frame, upwards)
    finish(ax, "", upwards)
    for column, axis in zip(shown, ("x", "y"), strict=False):
        dress_axis(ax, column, axis)
    place = [float(column.take(np.array([0])).positions()[0]) for column in shown]
    if len(shown) == 1:
        ax.axvline(place[0], color=MISS, lw=1.2, ls=IDEAL, zorder=0)
    else:
        look: dict[str, Any] = {"color": MISS, "edgecolors": "white", "lw": 0.9, "zorder": 4}
        ax.scatter(place[0], place[1], marker="*", s=190, **look)
    caption(ax, ["Dashed: x." if len(shown) == 1 else "★: x.", *_describe(weights, len(rows))])
    return ax, frame


def _find_localizer(model: Any) -> Localizer:
    """The kernel between rows of a law, or of a regressor's."""
    check_is_fitted(model)
    if isinstance(model, BaseLaw):
        return model.localizer()
    if hasattr(model, "localizer_"):
        found: Localizer = model.localizer_
        return found
    laws = getattr(getattr(model, "law_", None), "laws", ())
    if not laws or not isinstance(laws[-1], BaseLaw):
        raise ValueError(
            f"{type(model).__name__} has no law with a kernel between rows; a regressor such as "
            "SLCPRegressor(law='kernel'), 'neighbors' or 'forest', or such a law, was expected."
        )
    # The law of the upper side, where there are two.
    return laws[-1].localizer()


def _one_row(x: Any, X: Any) -> Any:
    """x as a table of one row, of the kind of X."""
    if is_frame(X) != is_frame(x):
        raise ValueError(
            f"x is a {type(x).__name__} and X a {type(X).__name__}; the same kind was expected: "
            "pass one row of a frame as X[:1], not as a series."
        )
    row = x if is_frame(x) else np.atleast_2d(np.asarray(x))
    if len(row) != 1 or len(X) == 0 or np.shape(row)[1] != np.shape(X)[1]:
        raise ValueError(
            f"x has shape {np.shape(row)} and X {np.shape(X)}; one row x, and at least one row of "
            "X with the same columns, were expected."
        )
    return row


def _row_weights(kernel: Localizer, query: Any, X: Any) -> Array:
    """H(x, X_i) scaled to sum to one (n,); all 0 where no row speaks for x."""
    if isinstance(kernel, NeighborsLocalizer):
        # Only the radius around x counts; those around all rows of X would take long.
        points = np.asarray(kernel.embedding.transform(X))
        others = np.column_stack([points, np.zeros(len(points))])
    else:
        others = kernel.view(X)
    found = kernel(kernel.view(query), others)[0]
    total = found.sum()
    return np.asarray(found / total) if total > 0.0 else np.zeros(len(found))


def _check_scores(v: ArrayLike | None, n: int, n_features: int) -> Array | None:
    """Scores (n,) for the upward axis, where it is free."""
    if v is None:
        return None
    scores = np.asarray(v, dtype=np.float64)
    if n_features == 2 or scores.shape != (n,):
        raise ValueError(
            f"v has shape {scores.shape} beside {n} rows and {n_features} feature(s); ({n},) and "
            "one feature were expected: v is drawn upwards."
        )
    return scores


def _heavy_rows(weights: Array, max_points: int, random_state: int) -> NDArray[np.intp]:
    """Rows to draw, the lightest first: all, or the heaviest half and others at random."""
    order = np.argsort(weights, kind="stable")
    n_light = len(order) - max_points // 2
    if len(order) <= max_points:
        return order
    light = drawn_rows(n_light, max_points - max_points // 2, random_state)
    return np.concatenate([order[light], order[n_light:]])


def _weights_frame(
    shown: list[Feature], rows: NDArray[np.intp], weights: Array, scores: Array | None
) -> Any:
    """The frame of the rows to draw."""
    import pandas as pd

    columns: dict[str, Any] = {"row": rows}
    # Two orders that have nothing to do with each other: where strips cross, rows spread.
    orders = rows, (rows * GOLDEN) % 1.0
    for suffix, column, order in zip(("", "2"), shown, orders, strict=False):
        columns[f"x{suffix}"] = column.values
        columns[f"position{suffix}"] = column.positions(order_by=order)
    if scores is not None:
        columns["v"] = scores[rows]
    return pd.DataFrame({**columns, "weight": weights[rows]})


def _draw_weights(ax: Axes, frame: Any, upwards: str) -> None:
    """Rows without weight faint, the others larger and darker the heavier they are."""
    silent, heard = frame[frame["weight"] == 0.0], frame[frame["weight"] > 0.0]
    ax.scatter(silent["position"], silent[upwards], s=7, color=FAINT, lw=0, zorder=1)
    if len(heard):
        weight = heard["weight"]
        points = ax.scatter(
            heard["position"], heard[upwards], s=8.0 + 40.0 * weight / weight.max(), c=weight,
            cmap=WEIGHT_COLOURS, vmin=0.0, lw=0.3, edgecolors=INK, zorder=2,
        )  # fmt: skip
        if upwards != "weight":
            bar = ax.figure.colorbar(points, ax=ax, pad=0.02, aspect=30)
            bar.set_label("weight", color=INK, fontsize=LABEL_SIZE)
            bar.outline.set_visible(False)
            bar.ax.tick_params(colors=INK, labelsize=SMALL_SIZE, color=FAINT)
    if upwards == "weight":
        ax.set_ylim(bottom=0.0)


def _describe(weights: Array, n_drawn: int) -> list[str]:
    """How many rows speak for x."""
    n, size = len(weights), float(effective_sample_size(weights[None])[0])
    if size == 0.0:
        said = f"None of {n:,} rows speaks for this x: all weights are 0."
    else:
        said = (
            f"Effective sample size {say_number(size)}: {np.sum(weights > 0):,} of {n:,} rows have "
            f"weight, the heaviest {say_share(float(weights.max()))} of all."
        )
    return [said, say_drawn(n_drawn, n, "the heaviest and others at random")]
