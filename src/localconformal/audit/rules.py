"""Rules: regions off the target, found on one half of the rows and tested on the other.

The nodes of shallow trees on "covered, minus the target" are boxes of at most three conditions;
trees are greedy, so several are grown. A box scores n KL(coverage, target) - COST (bounds). The
bounds of the better boxes are then refined. Boxes covered too rarely and boxes covered too often
compete separately, so that one side does not hide the other. The best box is taken, its rows are
removed, and the others are judged by their remaining rows. If overall coverage is off the target, a
box must also differ from the rows outside it: with shares s inside, s' outside and s0 of all, the
evidence is at most n KL(s, s0) + n' KL(s', s0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr
from sklearn.tree import DecisionTreeRegressor

from localconformal.audit import cells
from localconformal.audit.cells import Condition, Counted, Outcomes
from localconformal.columns import LABEL, MISSING, Column, read_columns
from localconformal.quantiles import Array
from localconformal.text import listing

#: More rows than these do not improve the search, they only slow it down.
_MAX_FIND_ROWS, _MAX_FIND_CELLS = 50_000, 4_000_000
_MAX_DEPTH, _MAX_RULES = 3, 10
#: Least share of the finding rows in a region, and least number of them.
_LEAF_SHARES, _FEWEST_ROWS = (0.02, 0.05, 0.1), 20
#: A region of nearly all rows is already covered by the summary.
_LARGEST_SHARE, _TREES_OF_A_KIND = 0.9, 8
#: Boxes of either side whose bounds are refined, places tried for one; labels of a column.
_MAX_REFINED, _PLACES, _MAX_LABELS = 20, 40, 20
#: What a bound must add to the log-likelihood ratio: as much as a p-value of 0.005. Below the
#: second, on the rows used to find it, a region is not worth a test.
_COST, _LEAST_SCORE = 4.0, 0.0

#: (axis, low, high) of each condition low < point <= high, by axis.
_Box = tuple[tuple[int, int, int], ...]
#: A box and its side of the target: -1 below, 1 above.
_Sided = tuple[_Box, int]
_Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Rule(Counted):
    """A region of the features, and its coverage on rows not used to find it.

    ``text`` has its ``conditions`` in words; for the numbers see `Counted`. ``found_coverage``, on
    the ``found_n`` rows used to find it, is biased: for comparison only.
    """

    conditions: tuple[Condition, ...]
    found_n: int
    found_coverage: float

    def rows(self, X: Any) -> NDArray[np.bool_]:
        """Which rows of X, with the columns of the audit, lie in the region."""
        columns = {column.name: column for column in read_columns(X, len(X))}
        if lost := [one.feature for one in self.conditions if one.feature not in columns]:
            got = f"X: got the columns {listing(columns)}, without {listing(lost)}"
            raise ValueError(f"{got}; expected the columns of the audit, with the same names.")
        return _holds(self.conditions, columns)


def find_rules(
    columns: list[Column], rows: Outcomes, random_state: int
) -> tuple[tuple[Rule, ...], list[str]]:
    """Rules, the most significant first, and notes on them."""
    most = int(np.clip(_MAX_FIND_CELLS // max(len(columns), 1), 2_000, _MAX_FIND_ROWS))
    n_find, notes = min((n := len(rows.covered)) // 2, most), []
    if n_find < 2 * _FEWEST_ROWS:
        return (), [f"Rules were not searched for: that needs {4 * _FEWEST_ROWS} rows."]
    if rows.covered.all() or not rows.covered.any():
        return (), ["Rules were not searched for: coverage is the same in all rows."]
    order = np.random.default_rng(random_state).permutation(n)
    find, test = order[:n_find], order[n_find:]
    if n_find < n // 2:
        notes.append(f"Rules were found on {n_find:,} rows and tested on the other {len(test):,}.")
    if not (regions := _find_regions(columns, find, rows, random_state)):
        notes.append(f"No rule stood out on the {n_find:,} rows searched for rules.")
    # The regions that have rows for testing are one family of tests.
    by_name, held = {column.name: column for column in columns}, rows.take(test)
    masks = [(region, _holds(region, by_name)) for region in regions]
    kept = [(region, mask[find], mask[test]) for region, mask in masks if mask[test].any()]
    counts = [(m.sum(), held.covered[m].sum(), held.length[m].sum()) for _, _, m in kept]
    rules = []
    for (region, mask, _), known in zip(kept, held.describe(counts), strict=True):
        known |= {"text": " and ".join(one.text for one in region), "conditions": region}
        seen = rows.covered[find][mask]
        rules.append(Rule(**known, found_n=len(seen), found_coverage=float(seen.mean())))
    rules.sort(key=lambda rule: (rule.p_value, -abs(rule.gap)))
    # Only a region that differs from the other rows says more than the summary does.
    told = [rule for rule in rules if rule.stands_out or not rows.is_off]
    if len(told) < len(rules):
        notes.append(
            f"{len(rules) - len(told)} of {len(rules)} regions found are not listed as rules: "
            "their coverage does not differ from that of the other rows."
        )
    return tuple(told), notes


def _holds(conditions: tuple[Condition, ...], columns: dict[str, Column]) -> NDArray[np.bool_]:
    return np.logical_and.reduce([one.holds(columns[one.feature]) for one in conditions])


@dataclass(frozen=True, eq=False)
class _Axis:
    """What a tree splits on: the order of a column, one of its labels, or its missing values.

    ``points`` (m,) are from 0 to ``last``, -1 for a missing number; rows of the ``marked`` code
    are at 1 and others at 0, None for the order.
    """

    points: NDArray[np.int32]
    last: int
    column: Column
    marked: int | None = None

    def say(self, low: int, high: int) -> Condition:
        if self.marked is None:
            return cells.range_condition(self.column, low + 1, high)
        return cells.label_condition(self.column, self.marked, negated=high == 0)


def _find_regions(
    columns: list[Column], find: NDArray[np.intp], rows: Outcomes, random_state: int
) -> list[tuple[Condition, ...]]:
    """Conditions of the regions found on the rows at ``find``, the most conspicuous first."""
    covered, level = rows.covered[find], rows.confidence_level
    fewest = max(_FEWEST_ROWS, int(np.ceil(_LEAF_SHARES[0] * len(find))))
    if not (axes := _make_axes(columns, find, fewest)):
        return []
    search = _Search(axes, covered, level, fewest, shifted=rows.take(find).is_off)
    proposed = _propose_boxes(axes, covered.astype(np.float64) - level, random_state)
    refined = {(search.refine(box, side), side) for box, side in search.best(proposed)}
    chosen = search.choose(sorted((box, side) for box, side in refined if box))
    return [tuple(axes[j].say(low, high) for j, low, high in box) for box in chosen]


def _make_axes(columns: list[Column], rows: NDArray[np.intp], fewest: int) -> list[_Axis]:
    """Everything a tree may split these rows on with at least ``fewest`` on either side."""
    axes = []
    for column in columns:
        codes = column.codes[rows]
        if column.kind != LABEL:
            axes.append(_Axis(codes, len(column.values) - 1, column))
        counts = np.bincount(codes + 1, minlength=len(column.labels) + 1)
        for marked in (MISSING, *range(min(len(column.labels), _MAX_LABELS))):
            if fewest <= counts[marked + 1] <= len(rows) - fewest:
                axes.append(_Axis((codes == marked).astype(np.int32), 1, column, marked))
    return axes


def _propose_boxes(axes: list[_Axis], target: Array, random_state: int) -> set[_Box]:
    """The nodes of shallow trees of the target (m,) on the axes."""
    # Missing numbers go with the median here, and meet no condition on their order later.
    points = np.stack([axis.points for axis in axes], axis=1).astype(np.float32)
    for column in points.T:
        if (known := column[column != MISSING]).size < len(column):
            column[column == MISSING] = int(np.median(known)) if len(known) else 0
    boxes, rng = set[_Box](), np.random.default_rng(random_state)
    for share in _LEAF_SHARES:
        for max_features in (None, *(_TREES_OF_A_KIND * (1 / 3,))):
            tree = DecisionTreeRegressor(
                max_depth=_MAX_DEPTH,
                min_samples_leaf=max(_FEWEST_ROWS, int(np.ceil(share * len(target)))),
                max_features=max_features,
                random_state=int(rng.integers(2**31)),
            ).fit(points, target)
            boxes.update(_boxes_of(tree.tree_, [axis.last for axis in axes]))
    return boxes


def _boxes_of(tree: Any, last: list[int]) -> Iterator[_Box]:
    nodes: list[tuple[int, dict[int, tuple[int, int]]]] = [(0, {})]
    while nodes:
        node, sides = nodes.pop()
        if sides:
            yield tuple((j, *sides[j]) for j in sorted(sides))
        left, right = tree.children_left[node], tree.children_right[node]
        if left == right:
            continue
        j, cut = int(tree.feature[node]), int(np.floor(tree.threshold[node]))
        low, high = sides.get(j, (-1, last[j]))
        nodes += [(left, {**sides, j: (low, cut)}), (right, {**sides, j: (cut, high)})]


@dataclass(frozen=True, eq=False)
class _Search:
    """Boxes judged on the rows that find them."""

    axes: list[_Axis]
    covered: _Mask
    confidence_level: float
    fewest: int
    shifted: bool

    def mask(self, box: _Box) -> _Mask:
        inside = np.ones(len(self.covered), dtype=bool)
        for j, low, high in box:
            points = self.axes[j].points
            inside &= (points > low) & (points <= high)
        return inside

    def evidence(self, n: Any, hits: Any, side: Any) -> Array:
        """n KL(coverage, target) for each count of rows; -inf on the other side, or for too few or
        nearly all rows.
        """
        tau, share = self.confidence_level, hits / np.maximum(n, 1)
        found, beyond = n * _divergence(share, tau), side * (share - tau)
        if self.shifted:
            n_others, overall = np.maximum(len(self.covered) - n, 1), self.covered.mean()
            others = (self.covered.sum() - hits) / n_others
            apart = n * _divergence(share, overall) + n_others * _divergence(others, overall)
            found = np.minimum(found, apart)
            beyond = np.minimum(beyond, side * (share - others))
        fits = (n >= self.fewest) & (n <= _LARGEST_SHARE * len(self.covered)) & (beyond > 0)
        return np.where(fits, found, -np.inf)

    def scores(self, boxes: list[_Box], masks: _Mask, sides: Any) -> Array:
        """Evidence minus cost of each box, by its mask (K, m) and its side."""
        last = [axis.last for axis in self.axes]
        # Leaving missing numbers out costs as much as one bound.
        bounds = [sum(max(1, (low > -1) + (high < last[j])) for j, low, high in b) for b in boxes]
        found = self.evidence(masks.sum(axis=1), (masks & self.covered).sum(axis=1), sides)
        return found - _COST * np.array(bounds)

    def best(self, boxes: set[_Box]) -> list[_Sided]:
        """The boxes worth refining, of either side."""
        if not boxes:
            return []
        ordered, found = sorted(boxes), list[_Sided]()
        masks = np.stack([self.mask(box) for box in ordered])
        for side in (-1, 1):
            scores = self.scores(ordered, masks, side)
            first = np.argsort(-scores, kind="stable")[:_MAX_REFINED]
            found += [(ordered[i], side) for i in first if scores[i] > -np.inf]
        return found

    def refine(self, box: _Box, side: int) -> _Box:
        """The box with the bounds of each condition refined until nothing is gained."""
        for _ in range(_MAX_DEPTH):
            before = box
            for j, _, _ in before:
                box = self.search_axis(tuple(part for part in box if part[0] != j), j, side)
            if box == before:
                break
        return box

    def search_axis(self, others: _Box, j: int, side: int) -> _Box:
        """The other conditions with the best bounds on one axis, or with none."""
        inside, axis = self.mask(others), self.axes[j]
        known = inside & (axis.points > -1)
        points = axis.points[known]
        if len(points) == 0:
            return others
        edges = np.unique(np.quantile(points, np.linspace(0, 1, _PLACES + 1), method="lower"))
        edges = np.unique([-1, *edges, axis.last])
        place = np.searchsorted(edges, points)
        n, hits = (
            np.cumsum(np.bincount(place[rows], minlength=len(edges)))
            for rows in (slice(None), self.covered[known])
        )
        gains = self.evidence(n - n[:, None], hits - hits[:, None], side)
        bounds = (edges > -1)[:, None] + (edges < axis.last).astype(np.float64)
        gains -= _COST * np.maximum(1.0, bounds)
        low, high = np.unravel_index(int(np.argmax(gains)), gains.shape)
        alone = self.evidence(inside.sum(), (inside & self.covered).sum(), side)
        if not gains[low, high] > alone:
            return others
        return tuple(sorted([*others, (j, int(edges[low]), int(edges[high]))]))

    def choose(self, found: list[_Sided]) -> list[_Box]:
        """The best box, then the best of what is left, and so on."""
        if not found:
            return []
        boxes, sides = [box for box, _ in found], np.array([side for _, side in found])
        masks, chosen = np.stack([self.mask(box) for box in boxes]), list[_Box]()
        while len(chosen) < _MAX_RULES:
            scores = self.scores(boxes, masks, sides)
            best = int(np.argmax(scores))
            if not scores[best] >= _LEAST_SCORE:
                break
            chosen.append(boxes[best])
            masks &= ~masks[best]
        return chosen


def _divergence(share: Array, other: Any) -> Array:
    """KL(share, other) of two shares."""
    return np.asarray(rel_entr(share, other) + rel_entr(1.0 - share, 1.0 - other))
