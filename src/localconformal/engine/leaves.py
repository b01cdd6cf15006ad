"""The leaf engine: laws on the references that share leaves with a row.

w_i(x) = (1 / T) sum_t 1{X_i in leaf_t(x)} / |leaf_t(x)|. Leaves of all trees are numbered
through, 0 to the number of them; a row is known by its T codes, -1 for a leaf that no reference
is in. Such trees are left out of the average; a row with nothing but such leaves gets the law of
all references, and is flagged.

`compiled_leaves` explains the loops. Few references are answered by plain NumPy and SciPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from localconformal.engine.announce import compiling
from localconformal.engine.positions import scores_at, targets_by_row
from localconformal.engine.reference import ReferenceEngine
from localconformal.quantiles import Array

Codes = NDArray[np.int32]

#: Query rows a thread takes at a time: enough to use a tree while it is in the cache.
CHUNK_ROWS = 2048
#: Rows below which a second thread does not pay.
ROWS_PER_THREAD = 256
#: Bins of ranks, at least and at most, and about how many members one may hold on average.
FEWEST_BINS, MOST_BINS, MEMBERS_PER_BIN = 24, 256, 4.0


@dataclass(frozen=True)
class Leaves:
    """Members of all leaves, by rank.

    Attributes
    ----------
    starts : array of shape (leaves + 1,)
        Members of leaf k stand at starts[k]:starts[k + 1].
    members : array of shape (n * T,)
        Ranks of references in the order of their scores.
    n : int
        References.
    """

    starts: NDArray[np.int64]
    members: NDArray[np.int32]
    n: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Members of each leaf: (leaves,)."""
        return np.diff(self.starts)

    def codes(self) -> Codes:
        """The codes of the references themselves, by rank: (n, T)."""
        trees = len(self.members) // self.n
        of_member = np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), self.sizes)
        out = np.empty((self.n, trees), dtype=np.int32)
        for t in range(trees):
            part = slice(t * self.n, (t + 1) * self.n)
            out[self.members[part], t] = of_member[part]
        return out


def collect_leaves(codes: Codes, n_leaves: int) -> Leaves:
    """Leaves from the codes (n, T) of the references by rank; a tree's leaves follow each other."""
    n, trees = codes.shape
    sizes = np.zeros(n_leaves, dtype=np.int64)
    members = np.empty(n * trees, dtype=np.int32)
    for t in range(trees):
        column = np.ascontiguousarray(codes[:, t])
        sizes += np.bincount(column, minlength=n_leaves)
        # Stable: within a leaf the order stays that of the ranks.
        members[t * n : (t + 1) * n] = np.argsort(column, kind="stable")
    return Leaves(np.concatenate([[0], np.cumsum(sizes)]), members, n)


@dataclass(frozen=True)
class Records:
    """The same for compiled loops: one record a leaf, which a query reads in one go.

    Attributes
    ----------
    starts : array of shape (leaves + 1,)
        Record k stands at starts[k]:starts[k + 1]: first how many members lie up to the end of
        each bin of ranks, then the members' places within their bins.
    words : array of unsigned integers
        In 16 bits where they suffice: what a query costs is mostly waiting for memory.
    bins, width : int
        Rank r is at place r % width of bin r // width.
    """

    starts: NDArray[np.int64]
    words: NDArray[Any]
    bins: int
    width: int

    def leaves(self, n: int) -> Leaves:
        """Members by leaf again."""
        heads = self._heads()
        counts: Any = np.diff(self.words[heads].astype(np.int64), axis=1, prepend=0)
        of_member = np.repeat(np.tile(np.arange(self.bins), len(heads)), counts.ravel())
        places = np.delete(self.words, heads.ravel())
        members = (of_member * self.width + places).astype(np.int32)
        return Leaves(self.starts - self.bins * np.arange(len(self.starts)), members, n)

    def _heads(self) -> NDArray[np.int64]:
        return self.starts[:-1, None] + np.arange(self.bins)


def write_records(leaves: Leaves, bins: int) -> Records:
    """Records with about so many bins."""
    width = -(-leaves.n // min(bins, leaves.n))
    bins = -(-leaves.n // width)
    sizes = leaves.sizes
    of_member = np.repeat(np.arange(len(sizes)), sizes)
    cells = np.bincount(of_member * bins + leaves.members // width, minlength=len(sizes) * bins)
    small = max(sizes.max(), width) < 2**16
    starts = leaves.starts + bins * np.arange(len(leaves.starts))
    words = np.empty(starts[-1], dtype=np.uint16 if small else np.uint32)
    made = Records(starts, words, bins, width)
    words[made._heads()] = np.cumsum(cells.reshape(-1, bins), axis=1)
    words[np.arange(len(of_member)) + bins * (of_member + 1)] = leaves.members % width
    return made


@dataclass(frozen=True)
class LeafWeights:
    """The weights as a product of sparse matrices: rows x leaves times leaves x references.

    With ``own_last``, rows have one more entry: the rank of a reference that must not count.
    """

    leaves: Leaves
    own_last: bool = False

    def __call__(self, rows: Any) -> tuple[Array, NDArray[np.bool_]]:
        """Codes (m, T) -> weights (m, n), and where no leaf had members."""
        codes: Codes = rows[:, :-1] if self.own_last else rows
        sizes = self.leaves.sizes - self.own_last
        known = (codes >= 0) & (sizes[codes] > 0)
        columns = codes[known]
        ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        shape = (len(rows), len(sizes))
        query = sparse.csr_matrix((1.0 / sizes[columns], columns, ends), shape=shape)
        ones = np.ones(len(self.leaves.members))
        held = sparse.csr_matrix(
            (ones, self.leaves.members, self.leaves.starts), shape=(len(sizes), self.leaves.n)
        )
        weights: Array = (query @ held).toarray()
        alike = ~np.any(known, axis=1)
        weights[alike] = 1.0
        if self.own_last:
            weights[np.arange(len(rows)), rows[:, -1]] = 0.0
        return weights, alike


class LeafEngine:
    """Laws of sorted reference scores, compiled.

    Parameters
    ----------
    v : array of shape (n,)
        Reference scores, sorted.
    leaves : Leaves
        Their leaves, by rank.
    find : callable
        Rows (m, ...) -> codes (m, T); called on chunks of rows, in threads.
    n_jobs : int or None, default=None
        Threads; None is one for each core.
    """

    def __init__(
        self, v: Array, leaves: Leaves, find: Callable[[Any], Codes], n_jobs: int | None = None
    ) -> None:
        self.v = v
        self.find = find
        self.n_jobs = n_jobs
        self.records = write_records(leaves, choose_bins(leaves))

    def quantiles(self, rows: Any, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L)."""
        from localconformal.engine.compiled_leaves import leaf_locate

        targets = targets_by_row(levels, upper, len(rows))
        positions = np.empty(targets.shape, dtype=np.int64)
        self._run(self._law(leaf_locate, None, targets, positions), rows)
        return scores_at(self.v, positions, targets)

    def cdf(self, rows: Any, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (m, k) -> (m, k)."""
        from localconformal.engine.compiled_leaves import leaf_mass

        counts = np.searchsorted(self.v, v, side="right" if side == "right" else "left")
        masses = np.empty(v.shape)
        self._run(self._law(leaf_mass, None, counts, masses), rows)
        return masses

    def quantiles_without_own(self, codes: Codes, own: NDArray[np.int64], levels: Array) -> Array:
        """Q at rows of these codes, where reference own[i] does not count for row i: (m, L)."""
        from localconformal.engine.compiled_leaves import leaf_locate

        targets = targets_by_row(levels, np.zeros(levels.shape[-1], dtype=bool), len(codes))
        positions = np.empty(targets.shape, dtype=np.int64)
        self._run(self._law(leaf_locate, own, targets, positions), codes, find=np.asarray)
        return scores_at(self.v, positions, targets)

    def mean(self, rows: Any, absolute: bool = False) -> Array:
        """E[V] or E[|V|]: (m,)."""
        return self._moments(rows, np.abs(self.v) if absolute else self.v)[:, 0]

    def effective_sample_size(self, rows: Any) -> Array:
        """1 / sum w^2: (m,)."""
        return self._moments(rows, self.v)[:, 1]

    def fallback(self, rows: Any) -> NDArray[np.bool_]:
        """Where no leaf had members: (m,)."""
        return self._moments(rows, self.v)[:, 2] > 0

    def _moments(self, rows: Any, v: Array) -> Array:
        from localconformal.engine.compiled_leaves import leaf_moments

        held = self.records
        means = leaf_means(held.leaves(len(v)), v)
        out = np.empty((len(rows), 3))

        def work(codes: Codes, part: slice) -> None:
            inside = (held.starts, held.words, held.bins, held.width)
            leaf_moments(codes, *inside, means, v, out[part])

        self._run(work, rows)
        return out

    def _law(self, loop: Any, own: Any, asked: Any, out: Any) -> Callable[[Codes, slice], None]:
        """The loop on a chunk of rows; ``own`` None: every reference counts."""
        held = self.records

        def work(codes: Codes, part: slice) -> None:
            mine = np.full(len(codes), -1) if own is None else own[part]
            inside = (held.starts, held.words, held.bins, held.width, len(self.v))
            loop(codes, mine, *inside, asked[part], out[part])

        return work

    def _run(self, work: Callable[[Codes, slice], None], rows: Any, find: Any = None) -> None:
        """Find the leaves of chunks of rows and do the work on them, in threads."""
        from localconformal.engine.exact import run_in_threads

        find = self.find if find is None else find
        step = int(np.clip(len(rows) // 8, ROWS_PER_THREAD, CHUNK_ROWS))
        parts = [slice(i, i + step) for i in range(0, len(rows), step)]
        run_in_threads(lambda part: work(find(rows[part]), part), parts, self.n_jobs, len(parts))


def choose_bins(leaves: Leaves) -> int:
    """More bins for larger leaves: a query opens one bin of each tree's leaf."""
    typical = len(leaves.members) / max(1, int(np.count_nonzero(leaves.sizes)))
    return int(np.clip(typical / MEMBERS_PER_BIN, FEWEST_BINS, MOST_BINS))


def leaf_means(leaves: Leaves, v: Array) -> Array:
    """Mean of v in each leaf: (leaves,)."""
    sizes = leaves.sizes
    totals = np.bincount(np.repeat(np.arange(len(sizes)), sizes), v[leaves.members], len(sizes))
    return totals / np.maximum(sizes, 1)


class TreeWalk:
    """Down compiled trees: points (m, d) float32 -> codes (m, T)."""

    def __init__(self, words: NDArray[np.int32], roots: NDArray[np.int64]) -> None:
        self.words = words
        self.roots = roots

    def __call__(self, points: NDArray[np.float32]) -> Codes:
        """The leaf of each row in each tree."""
        from localconformal.engine.compiled_leaves import walk_trees

        codes = np.empty((len(points), len(self.roots)), dtype=np.int32)
        reals = self.words.view(np.float32)
        for start in range(0, len(points), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            some = np.ascontiguousarray(points[part])
            walk_trees(some, self.words, reals, self.roots, codes[part])
        return codes


def few_quantiles_without_own(
    v: Array, leaves: Leaves, codes: Codes, own: NDArray[np.int64], levels: Array
) -> Array:
    """As `LeafEngine.quantiles_without_own`, by plain NumPy."""
    engine = ReferenceEngine(v, LeafWeights(leaves, own_last=True))
    rows: Any = np.column_stack([codes, own])
    return engine.quantiles(rows, levels, np.zeros(levels.shape[-1], dtype=bool))


@cache
def load_loops() -> None:
    """Have the loops compiled, or loaded from the disk cache, before anything waits for them."""
    leaves = collect_leaves(np.zeros((1, 1), dtype=np.int32), 1)
    walk = TreeWalk(np.zeros((1, 4), dtype=np.int32), np.zeros(1, dtype=np.int64))
    engine = LeafEngine(np.zeros(1), leaves, walk, 1)
    with compiling():
        engine.quantiles(np.zeros((1, 1), np.float32), np.array([0.5]), np.array([False]))
