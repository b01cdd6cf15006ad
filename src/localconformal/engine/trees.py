"""Trees on binned columns: grown on some of the rows, then filled with all of them.

Columns become codes of one byte. A tree is grown on a sample of the rows, so its cost does not grow
with the table. Its nodes are numbered depth first, left before right: the rows below a node are
adjacent at any depth, and its left child is the next number.
::

    node        0 --- 1 --- 2          leaves 2, 3 and 4; rows in their order: [2 2 | 3 | 4 4 4]
                |     +---- 3          node 1 holds the first three, node 0 all six
                +---- 4

So one forest can be read at several depths: a leaf with too few rows uses those of its nearest
ancestor with enough (`_reach`). A row's value is kept as a cell of a grid, also one byte, and a law
is the sum of the leaves' histograms over the grid (`_histograms`). For a row that helped to fill
the leaves, the held-out law uses the trees not grown on it, without its own entry.

A node is one number, so a step down the tree waits for one load and one value of the row::

    right child: 32 bits | split or leaf: 1 | column: 23 | cut: 8

A leaf has the largest cut, which no code exceeds, so a row stays there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.columns import check_width
from localconformal.engine import jit, run_in_threads
from localconformal.quantiles import Array

Codes = NDArray[np.uint8]
Nodes = NDArray[np.uint64]
#: Rows on which the edges of bins are found.
_EDGE_ROWS = 20_000
#: Rows that a thread takes at a time.
_CHUNK = 1_024
#: Most rows that a tree keeps, in total and per leaf: more would cost time and add little.
_KEPT, _KEPT_PER_LEAF = 100_000, 64
LEAF, _SPLIT = np.uint64(255), np.uint64(1 << 31)
_BYTE, _COLUMN = np.uint64(0xFF), np.uint64(0x7FFFFF)
_TO_COLUMN, _TO_SPLIT, _TO_RIGHT = np.uint64(8), np.uint64(31), np.uint64(32)
#: After a row's own entry is subtracted, a cell with less mass than this is empty up to rounding.
_NOTHING = 1e-12


class Bins:
    """Columns as codes: at most ``n_bins`` intervals with about the same number of rows each."""

    def fit(self, Z: Array, n_bins: int, seed: int) -> Bins:
        """Find the edges on some of the rows (n, d)."""
        some = Z[np.random.default_rng(seed).permutation(len(Z))[:_EDGE_ROWS]]
        self.edges_ = [_edges(column, n_bins) for column in some.T]
        return self

    def codes(self, Z: Array) -> Codes:
        """(n, d) bytes, row by row."""
        out = np.empty(Z.shape, dtype=np.uint8)
        for j, edges in enumerate(self.edges_):
            out[:, j] = np.searchsorted(edges, Z[:, j])
        return out


def _edges(column: Array, n_bins: int) -> Array:
    values = np.unique(column)
    if len(values) <= n_bins:
        return np.asarray((values[:-1] + values[1:]) / 2.0)
    # Between two values: rows that differ in their last bits share a bin.
    at = np.unique(np.linspace(0, len(column), n_bins + 1)[1:-1].astype(np.intp))
    ordered = np.sort(column)
    return np.unique((ordered[at - 1] + ordered[at]) / 2.0)


def unpacked(nodes: Nodes) -> tuple[NDArray[np.int64], ...]:
    """Column (-1 at a leaf), cut and right child of each node."""
    # Signed before -1 joins: from NumPy 2.5 on, unsigned numbers refuse it.
    column = np.where(nodes & _SPLIT, (nodes >> _TO_COLUMN & _COLUMN).astype(np.int64), -1)
    return column, (nodes & _BYTE).astype(np.int64), (nodes >> _TO_RIGHT).astype(np.int64)


@jit(inline="always")
def _split_node(column: int, cut: int) -> Any:
    """A node whose right child is not yet known."""
    return _SPLIT | np.uint64(column) << _TO_COLUMN | np.uint64(cut)


@jit(inline="always")
def _set_right(nodes: Any, parent: int, child: int) -> None:
    nodes[parent] |= np.uint64(child) << _TO_RIGHT


@jit()
def _gain(total: Any, left: Any, n: int, n_left: int) -> float:
    """Squared sums over sizes of two parts: the variance explained by a cut, up to a constant."""
    gain = 0.0
    for q in range(len(total)):
        gain += left[q] ** 2 / n_left + (total[q] - left[q]) ** 2 / (n - n_left)
    return gain


@jit()
def _best_cut(column: Any, T: Any, rows: Any, leaf: int, total: Any, best: float, work: Any) -> Any:
    """The cut that explains most: whether there are two codes, gain, cut.

    The gain is ``best`` if no cut is better, or one side of it would have too few rows.
    """
    count, sums, n, k = work[0], work[1], len(rows), len(total)
    low, high = 255, 0
    for i in rows:
        low, high = min(low, column[i]), max(high, column[i])
    if low == high:
        return False, best, 0
    for x in range(low, high + 1):
        count[x] = 0
        for q in range(k):
            sums[x, q] = 0.0
    for i in rows:
        x = column[i]
        count[x] += 1
        for q in range(k):
            sums[x, q] += T[i, q]
    n_left, cut, left = 0, 0, np.zeros(k)
    for x in range(low, high):
        if count[x] == 0:
            continue
        n_left += count[x]
        for q in range(k):
            left[q] += sums[x, q]
        if n_left < leaf:
            continue
        if n - n_left < leaf:
            break
        gain = _gain(total, left, n, n_left)
        if gain > best:
            best, cut = gain, x
    return True, best, cut


@jit()
def partition(column: Any, rows: Any, cut: int, aside: Any) -> int:
    """Move rows with codes up to the cut to the front, keeping the order; return how many."""
    n_left, others = 0, 0
    for p in range(len(rows)):
        i = rows[p]
        if column[i] <= cut:
            rows[n_left] = i
            n_left += 1
        else:
            aside[others] = i
            others += 1
    # A loop, since a slice takes a second to compile.
    for p in range(others):
        rows[n_left + p] = aside[p]
    return n_left


@jit()
def _grow(B: Any, T: Any, leaf: int, tried: int, seed: int) -> Any:
    """One tree on codes B (d, m) and targets T (m, k): its nodes, and how many rows each has.

    At each node, ``tried`` columns are drawn that are not constant there.
    """
    np.random.seed(seed)  # noqa: NPY002
    (d, m), k = B.shape, T.shape[1]
    most = 2 * (m // leaf) + 3
    made, size = np.full(most, LEAF), np.zeros(most, np.int32)
    # Parts still to split: first and last row, and the node whose right child this is, or -1.
    stack = np.empty((most, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, m, -1
    top, nodes = 1, 0
    rows, aside, columns = np.arange(m), np.empty(m, np.int64), np.arange(d)
    work, total = (np.zeros(256, np.int64), np.zeros((256, k))), np.zeros(k)
    while top > 0:
        top -= 1
        a, b, parent = stack[top, 0], stack[top, 1], stack[top, 2]
        node, here = nodes, rows[a:b]
        nodes += 1
        size[node] = b - a
        if parent >= 0:
            _set_right(made, parent, node)
        if b - a < 2 * leaf:
            continue
        least = 0.0
        for q in range(k):
            total[q] = 0.0
            for i in here:
                total[q] += T[i, q]
            least += total[q] ** 2 / (b - a)
        best = least * (1.0 + 1e-7) + 1e-12
        chosen, cut, seen = -1, 0, 0
        for j in range(d):
            if seen == tried:
                break
            other = j + np.random.randint(d - j)  # noqa: NPY002
            f = columns[other]
            columns[other], columns[j] = columns[j], f
            varies, gain, x = _best_cut(B[f], T, here, leaf, total, best, work)
            seen += varies
            if gain > best:
                best, chosen, cut = gain, f, x
        if chosen >= 0:
            middle = a + partition(B[chosen], here, cut, aside)
            made[node] = _split_node(chosen, cut)
            stack[top, 0], stack[top, 1], stack[top, 2] = middle, b, node
            stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = a, middle, -1
            top += 2
    return made[:nodes], size[:nodes]


@jit()
def _ends(nodes: Any) -> Any:
    """The number after the last node below each node."""
    ends = np.arange(1, len(nodes) + 1)
    for p in range(len(nodes) - 1, -1, -1):
        if nodes[p] & _SPLIT:
            ends[p] = ends[nodes[p] >> _TO_RIGHT]
    return ends


@jit(inline="always")
def _step(x: Any, nodes: Any, node: Any) -> Any:
    """The child that x goes to; at a leaf, the leaf itself."""
    w = nodes[node]
    is_right = x[w >> _TO_COLUMN & _COLUMN] > (w & _BYTE)
    return w >> _TO_RIGHT if is_right else node + (w >> _TO_SPLIT & np.uint64(1))


@jit()
def _down(w: Any, x: Any, y: Any, z: Any, nodes: Any, root: int) -> Any:
    """Leaves of four rows, side by side: a single row would wait for each node it loads."""
    a = b = c = d = root
    while True:
        a1, b1 = _step(w, nodes, a), _step(x, nodes, b)
        c1, d1 = _step(y, nodes, c), _step(z, nodes, d)
        if (a1 == a) & (b1 == b) & (c1 == c) & (d1 == d):
            return a, b, c, d
        a, b, c, d = a1, b1, c1, d1


@jit()
def _walk(codes: Any, nodes: Any, roots: Any, out: Any) -> None:
    """Leaf of each row in each tree: codes (m, d) -> out (m, T)."""
    last = len(codes) - 1
    for t in range(len(roots)):
        for i in range(0, len(codes), 4):
            j, k, l = min(i + 1, last), min(i + 2, last), min(i + 3, last)
            w, x, y, z = codes[i], codes[j], codes[k], codes[l]
            a, b, c, d = _down(w, x, y, z, nodes, np.uint64(roots[t]))
            out[i, t], out[j, t], out[k, t], out[l, t] = a, b, c, d


@jit()
def sum_leaves(codes: Any, nodes: Any, roots: Any, table: Any, out: Any) -> None:
    """Sum over trees of a number per node, at each row's leaf: table (nodes,) -> out (m,)."""
    last = len(codes) - 1
    for i in range(len(codes)):
        out[i] = 0.0
    for t in range(len(roots)):
        for i in range(0, len(codes), 4):
            j, k, l = min(i + 1, last), min(i + 2, last), min(i + 3, last)
            w, x, y, z = codes[i], codes[j], codes[k], codes[l]
            a, b, c, d = _down(w, x, y, z, nodes, np.uint64(roots[t]))
            out[i] += table[a]
            # The last rows may be fewer than four.
            if j > i:
                out[j] += table[b]
            if k > j:
                out[k] += table[c]
            if l > k:
                out[l] += table[d]


@jit()
def _reach(nodes: Any, size: Any, first: Any, last: Any, least: int) -> Any:
    """Rows (from, to) that each node uses: its own, or those of its nearest ancestor that was
    grown on at least ``least`` rows.
    """
    low, high = first.copy(), last.copy()
    for p in range(len(nodes)):
        if nodes[p] & _SPLIT:
            # Parents come before their children, which have even fewer rows.
            right = nodes[p] >> _TO_RIGHT
            if size[p + 1] < least:
                low[p + 1], high[p + 1] = low[p], high[p]
            if size[right] < least:
                low[right], high[right] = low[p], high[p]
    return low, high


@jit()
def _histograms(leaves: Any, low: Any, high: Any, kept: Any, own: Any, held: Any, out: Any) -> None:
    """Sum over trees of the shares of cells in a leaf: leaves (m, T), kept (rows, V) -> (m, V, G).

    ``own`` (m, V) are the row's own cells, if it is in the leaves, and ``held`` (m, T) says for
    each tree: 0 grown on the row; 1 not grown on it, and the row is not in its leaves; 2 not grown
    on it, but the row is in its leaves.
    """
    V = kept.shape[1]
    for i in range(len(leaves)):
        out[i] = 0.0
        for t in range(leaves.shape[1]):
            is_own = len(own) > 0
            if is_own and held[i, t] == 0:
                continue
            mine = is_own and held[i, t] == 2
            a, b = low[leaves[i, t]], high[leaves[i, t]]
            n = b - a - (1 if mine else 0)
            if n <= 0:
                continue
            w = 1.0 / n
            for p in range(a, b):
                for v in range(V):
                    out[i, v, kept[p, v]] += w
            if mine:
                for v in range(V):
                    out[i, v, own[i, v]] -= w


@jit()
def _quantiles(mass: Any, low: Any, high: Any, lengths: Any, levels: Any, out: Any) -> None:
    """Quantiles of histograms mass (m, V, G) at increasing levels: out (V, m, L).

    The mass of a cell is uniform between the smallest and the largest value in it.
    """
    for i in range(len(mass)):
        for v in range(mass.shape[1]):
            last, total = lengths[v] - 1, 0.0
            for j in range(last + 1):
                total += max(mass[i, v, j], 0.0)
            j, below = 0, 0.0
            for l in range(len(levels)):
                wanted = levels[l] * total
                here = max(mass[i, v, j], 0.0)
                while j < last and (below + here < wanted or here <= _NOTHING):
                    below += here
                    j += 1
                    here = max(mass[i, v, j], 0.0)
                share = min(max((wanted - below) / max(here, _NOTHING), 0.0), 1.0)
                out[v, i, l] = low[v, j] + (high[v, j] - low[v, j]) * share


def in_parts(work: Callable[[slice], None], n: int, n_jobs: int | None) -> None:
    """Do the work for n rows, some at a time, in threads if that is worthwhile."""
    parts = [slice(a, a + _CHUNK) for a in range(0, n, _CHUNK)]
    run_in_threads(work, parts, n_jobs, n // 256)


class Forest:
    """Trees, each grown on its own sample of the rows."""

    def grow(
        self,
        codes: Codes,
        targets: Array,
        *,
        n_trees: int,
        leaf: int,
        rows: int,
        share: float,
        seed: int,
        n_jobs: int | None,
    ) -> Forest:
        """On codes (n, d) and targets (n, k): ``rows`` of them and a share of columns per tree."""
        (n, d), rng = codes.shape, np.random.default_rng(seed)
        tried = max(1, round(share * d))
        draws = [np.sort(rng.permutation(n)[:rows]).astype(np.int32) for _ in range(n_trees)]
        grown: list[Any] = [None] * n_trees
        seeds = rng.integers(2**31, size=n_trees)
        centred = targets - targets.mean(axis=0)

        def one(t: int) -> None:
            B, T = np.ascontiguousarray(codes[draws[t]].T), centred[draws[t]]
            grown[t] = _grow(B, T, leaf, tried, int(seeds[t]))

        run_in_threads(one, list(range(n_trees)), n_jobs, n_trees)
        counts = [len(nodes) for nodes, _ in grown]
        self.roots_ = np.cumsum([0, *counts[:-1]]).astype(np.int32)
        self.size_ = np.concatenate([size for _, size in grown])
        self.nodes_ = np.concatenate([nodes for nodes, _ in grown])
        first = np.repeat(self.roots_, counts).astype(np.uint64)
        self.nodes_ += np.where(self.nodes_ & _SPLIT, first << _TO_RIGHT, np.uint64(0))
        self.drawn_, self.n_jobs_, self.n_columns_ = draws, n_jobs, d
        return self

    def leaves(self, codes: Codes) -> NDArray[np.int32]:
        """Leaf of each row in each tree: (n, T)."""
        check_width(codes, self.n_columns_)
        out = np.empty((len(codes), len(self.roots_)), dtype=np.int32)
        walk = (self.nodes_, self.roots_)
        in_parts(lambda p: _walk(codes[p], *walk, out[p]), len(codes), self.n_jobs_)
        return out

    def fill(self, codes: Codes, cells: Codes, seed: int) -> Forest:
        """Keep the cells (n, V) of all rows, or of a sample of them per tree, by leaf."""
        n, rng, ends = len(codes), np.random.default_rng(seed), _ends(self.nodes_)
        leaves = int(np.count_nonzero(self.nodes_ == LEAF)) // len(self.roots_)
        size = min(n, _KEPT, _KEPT_PER_LEAF * leaves)
        self.kept_rows_ = [
            np.arange(n) if size == n else np.sort(rng.permutation(n)[:size]) for _ in self.roots_
        ]
        self.kept_ = np.empty((len(self.roots_) * size, cells.shape[1]), dtype=np.uint8)
        self.first_, self.last_ = np.empty((2, len(ends)), dtype=np.int32)
        stops = [*self.roots_[1:], len(ends)]

        def one(t: int) -> None:
            rows, root, stop = self.kept_rows_[t], self.roots_[t], stops[t]
            at = np.empty((size, 1), dtype=np.int32)
            _walk(codes[rows], self.nodes_, self.roots_[t : t + 1], at)
            order = np.argsort(at[:, 0], kind="stable")
            self.kept_[t * size : (t + 1) * size] = cells[rows[order]]
            starts = np.searchsorted(at[order, 0], np.arange(root, stop + 1)) + t * size
            self.first_[root:stop] = starts[:-1]
            self.last_[root:stop] = starts[ends[root:stop] - root]

        run_in_threads(one, list(range(len(stops))), self.n_jobs_, len(stops))
        return self

    def keep_trees(self, count: int) -> Forest:
        """Keep only the first ``count`` trees."""
        if count < len(self.roots_):
            nodes, rows = self.roots_[count], count * len(self.kept_) // len(self.roots_)
            for name in ("nodes_", "size_", "first_", "last_"):
                setattr(self, name, getattr(self, name)[:nodes].copy())
            self.roots_, self.kept_ = self.roots_[:count], self.kept_[:rows]
        return self

    def set_depth(self, least: int) -> Forest:
        """Use leaves, or their ancestors, that were grown on at least ``least`` rows."""
        self.low_, self.high_ = _reach(self.nodes_, self.size_, self.first_, self.last_, least)
        return self

    def histograms(self, leaves: Any, n_cells: int, own: Any = None, held: Any = None) -> Array:
        """Mass of each cell at rows in these leaves: (n, V, n_cells), as in `_histograms`."""
        own = np.empty((0, 0), dtype=np.uint8) if own is None else own
        held = np.empty((0, 0), dtype=np.uint8) if held is None else held
        out = np.empty((len(leaves), self.kept_.shape[1], n_cells))
        limits = (self.low_, self.high_, self.kept_)

        def one(p: slice) -> None:
            _histograms(leaves[p], *limits, own[p], held[p], out[p])

        in_parts(one, len(leaves), self.n_jobs_)
        return out

    def held(self, rows: NDArray[np.intp]) -> Codes:
        """The argument ``held`` of `_histograms` for training rows (m,) and each tree: (m, T)."""
        out = np.empty((len(rows), len(self.roots_)), dtype=np.uint8)
        for t, (drawn, kept) in enumerate(zip(self.drawn_, self.kept_rows_, strict=True)):
            out[:, t] = np.where(np.isin(rows, drawn), 0, 1 + np.isin(rows, kept))
        return out

    def forget(self) -> Forest:
        """Drop what only training rows need."""
        del self.drawn_, self.kept_rows_, self.size_, self.first_, self.last_
        return self


@dataclass(frozen=True)
class Grids:
    """Cells of V values: the smallest and the largest value in each cell, (V, G)."""

    low: Array
    high: Array
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, columns: list[Array], levels: Array) -> Grids:
        """Ends at these quantiles of each column, including its minimum and maximum."""
        ends = [np.unique(np.quantile(v, levels, method="inverted_cdf")) for v in columns]
        low, high = np.zeros((2, len(ends), max(map(len, ends))))
        for row, end, v in zip(range(len(ends)), ends, columns, strict=True):
            ordered = np.sort(v)
            first = np.searchsorted(ordered, np.concatenate([[-np.inf], end[:-1]]), side="right")
            low[row, : len(end)], high[row, : len(end)] = ordered[first], end
        return cls(low, high, np.array([len(end) for end in ends]))

    def take(self, which: Any) -> Grids:
        """Some of the values."""
        return Grids(self.low[which], self.high[which], self.lengths[which])

    def cells(self, columns: list[Array]) -> Codes:
        """(n, V) bytes."""
        places = [
            np.searchsorted(high[: n - 1], v)
            for high, n, v in zip(self.high, self.lengths, columns, strict=True)
        ]
        return np.stack(places, axis=1).astype(np.uint8)

    def quantiles(self, mass: Array, levels: Array) -> Array:
        """Quantiles of histograms (m, V, cells), at increasing levels: (V, m, L)."""
        out = np.empty((mass.shape[1], len(mass), len(levels)))
        _quantiles(mass, self.low, self.high, self.lengths, levels, out)
        return out


# ---- boosting -----------------------------------------------------------------------------------
#
# A step fits a tree to the current residuals: leaf by leaf, always where the gain is largest, up to
# a number of leaves, with a share of the columns drawn at each node. The histogram of a node is
# summed from its rows for the drawn columns only, which costs as much as the difference to its
# sibling would. Held-out rows tell when to stop. On a small table this takes a fraction of the time
# of scikit-learn's boosting, which grows its trees in Python around compiled loops.


@jit()
def _boosted_cut(
    B: Any, left: Any, rows: Any, a: int, b: int, plan: Any, work: Any, found: Any
) -> float:
    """The gain of the best cut of rows[a:b]; its column and code are written to ``found``."""
    tried, least, l2, cells, _ = plan
    columns, table, some = work
    n, d = b - a, len(B)
    found[0] = -1
    if n < 2 * least:
        return 0.0
    total = 0.0
    for p in range(n):
        some[p] = left[rows[a + p]]
        total += some[p]
    before = total * total / (n + l2)
    best = before + 1e-9 * abs(before) + 1e-12
    here = rows[a:b]
    for j in range(tried):
        other = j + np.random.randint(d - j)  # noqa: NPY002
        f = columns[other]
        columns[other], columns[j] = columns[j], f
        column = B[f]
        # The number of rows per code, and the sum of their residuals, side by side.
        for x in range(cells[f]):
            table[x, 0], table[x, 1] = 0.0, 0.0
        for p in range(n):
            x = column[here[p]]
            table[x, 0] += 1.0
            table[x, 1] += some[p]
        n_below, below = 0.0, 0.0
        for x in range(cells[f] - 1):
            if table[x, 0] == 0.0:
                continue
            n_below += table[x, 0]
            below += table[x, 1]
            if n_below < least:
                continue
            if n - n_below < least:
                break
            above = total - below
            gain = below * below / (n_below + l2) + above * above / (n - n_below + l2)
            if gain > best:
                best, found[0], found[1] = gain, f, x
    return best - before if found[0] >= 0 else 0.0


@jit()
def _boosted_tree(
    B: Any, left: Any, rows: Any, most: int, plan: Any, work: Any, aside: Any, used: int, nodes: Any
) -> int:
    """One more tree, fitted to the residuals ``left``, from which its predictions are subtracted.

    It is written after the ``used`` nodes; returns how many are used then. Grown leaf by leaf, with
    children side by side; then numbered as in a forest.
    """
    tree, value = nodes
    first, last, split, child, stack, cuts, gains, others = aside
    first[0], last[0], made, leaves = 0, len(rows), 1, 1
    gains[0] = _boosted_cut(B, left, rows, 0, len(rows), plan, work, cuts)
    split[0, 0], split[0, 1], child[0] = cuts[0], cuts[1], -1
    while leaves < most:
        node = 0
        for p in range(made):
            node = p if gains[p] > gains[node] else node
        if gains[node] <= 0.0:
            break
        a, b = first[node], last[node]
        middle = a + partition(B[split[node, 0]], rows[a:b], split[node, 1], others)
        gains[node], child[node] = 0.0, made
        first[made], last[made], first[made + 1], last[made + 1] = a, middle, middle, b
        leaves += 1
        for new in (made, made + 1):
            gains[new], child[new] = 0.0, -1
            if leaves < most:
                gains[new] = _boosted_cut(B, left, rows, first[new], last[new], plan, work, cuts)
                split[new, 0], split[new, 1] = cuts[0], cuts[1]
        made += 2
    stack[0, 0], stack[0, 1], top = 0, -1, 1
    while top > 0:
        top -= 1
        node, parent = stack[top, 0], stack[top, 1]
        if parent >= 0:
            _set_right(tree, parent, used)
        tree[used] = LEAF
        if child[node] >= 0:
            tree[used] = _split_node(split[node, 0], split[node, 1])
            stack[top, 0], stack[top, 1] = child[node] + 1, used
            stack[top + 1, 0], stack[top + 1, 1] = child[node], -1
            top += 2
        else:
            total = 0.0
            for p in range(first[node], last[node]):
                total += left[rows[p]]
            value[used] = np.float32(plan[4] * total / (last[node] - first[node] + plan[2]))
            for p in range(first[node], last[node]):
                left[rows[p]] -= value[used]
        used += 1
    return used


@jit()
def _boost(
    B: Any, left: Any, codes: Any, held: Any, rows: Any, most: int, plan: Any, work: Any,
    aside: Any, nodes: Any, roots: Any, patience: int, seed: int,
) -> Any:  # fmt: skip
    """At most as many trees as there are roots: how many are kept, and how many nodes they have.

    Residuals are in ``left`` (n,), and in ``held`` (m,) for held-out rows, whose codes are (m, d).
    Trees up to the step with the smallest held-out loss are kept, and boosting ends after
    ``patience`` steps without improvement.
    """
    np.random.seed(seed)  # noqa: NPY002
    answer, used = np.empty(len(held)), 0
    best, kept, best_used = np.inf, 0, 0
    for step in range(len(roots)):
        roots[step] = used
        used = _boosted_tree(B, left, rows, most, plan, work, aside, used, nodes)
        sum_leaves(codes, nodes[0], roots[step : step + 1], nodes[1], answer)
        loss = 0.0
        for i in range(len(held)):
            held[i] -= answer[i]
            loss += held[i] * held[i]
        if loss < best * (1.0 - 1e-7):
            best, kept, best_used = loss, step + 1, used
        elif step + 1 - kept >= patience:
            break
    return kept, best_used


@dataclass(frozen=True)
class Boosted:
    """The mean response and the sum of fitted trees."""

    mean: float
    nodes: Nodes
    values: NDArray[np.float32]
    roots: NDArray[np.int32]
    n_columns: int

    def predict(self, codes: Codes) -> Array:
        """(n,) numbers."""
        check_width(codes, self.n_columns)
        out = np.empty(len(codes))
        sum_leaves(codes, self.nodes, self.roots, self.values, out)
        return self.mean + out


@dataclass(frozen=True)
class Boosting:
    """Boosting parameters: size of a step and of a tree, rows per leaf, share of the columns."""

    rate: float = 0.1
    most_steps: int = 500
    leaves: int = 64
    least: int = 10
    l2: float = 1.0
    share: float = 0.6
    patience: int = 10
    seed: int = 0

    def fit(self, codes: Codes, y: Array, held: Codes, y_held: Array) -> Boosted:
        """Fit to codes (n, d) and responses (n,); held-out rows tell when to stop."""
        (n, d), size, mean = codes.shape, 2 * self.leaves, float(y.mean())
        cells = codes.max(axis=0).astype(np.int64) + 1
        plan = (max(1, round(self.share * d)), self.least, self.l2, cells, self.rate)
        work = np.arange(d), np.zeros((256, 2)), np.empty(n)
        places = [np.zeros(shape, dtype=np.int64) for shape in (size, size, (size, 2), size)]
        aside = (*places, np.zeros((size, 2), np.int64), np.zeros(2, np.int64), np.zeros(size))
        nodes = np.empty(self.most_steps * size, np.uint64), np.zeros(self.most_steps * size, "f4")
        roots = np.zeros(self.most_steps, np.int32)
        rows, others = np.arange(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        kept, used = _boost(
            *(np.ascontiguousarray(codes.T), y - mean, held, y_held - mean, rows, self.leaves),
            *(plan, work, (*aside, others), nodes, roots, self.patience, self.seed),
        )
        tree, values = nodes[0][:used].copy(), nodes[1][:used].copy()
        return Boosted(mean, tree, values, roots[:kept].copy(), d)
