"""The leaf engine: laws on the references that share leaves with a row.

w_i(x) = (1 / T) sum_t 1{X_i in leaf_t(x)} / |leaf_t(x)|. Leaves of all trees are numbered
through, 0 to the number of them; a row is known by its T codes, -1 for a leaf that no reference
is in. Such trees are left out of the average; a row with nothing but such leaves gets the law of
all references, and is flagged. Few references are answered by plain NumPy and SciPy
(`LeafWeights`), many by compiled loops: down the trees, then along the ranks.

F(c) = (1 / T) sum_t |{members of leaf_t(x) of rank below c}| / |leaf_t(x)|. Adding up every member
of every leaf would cost as much as the leaves are large. Instead each leaf keeps its members' ranks
in order, and how many of them lie up to the end of each of C bins of ranks:

::

    ranks 0 ... n - 1, in C bins of equal width          members of one leaf, by rank
    |   bin 0   |   bin 1   |   bin 2   |   bin 3   |     [ 3 9 | 17 | | 41 44 46 ]
                                            table of the leaf:  2   3  3       6

    first pass    the T tables of the row, each over its leaf's size, are added up: F at the end
                  of every bin, in C vector operations per tree, whatever the size of the leaves
    second pass   only in the one bin where a level falls: its members, by rank, one by one

* C is about a quarter of the mean size of a leaf, within bounds: a bin has a few members per tree.
* Four rows go down a tree side by side, without a branch: one row alone would wait for each node
  it loads.
* The law is the same in `_locate` and `_mass_up_to`, and sums are never reordered, as in `exact`:
  quantiles and CDF are exact inverses, and batches, threads and chunks do not change a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from localconformal.engine import compiling, jit, run_in_threads, scores_at, targets_by_row
from localconformal.quantiles import Array

Codes = NDArray[np.int32]

#: Query rows a thread takes at a time: enough to use a tree while it is in the cache.
_CHUNK_ROWS = 2048
#: Weights held at once where all are needed.
_CHUNK_WEIGHTS = 2**21
#: Rows below which a second thread does not pay.
_ROWS_PER_THREAD = 256
#: Bins of ranks, at least and at most, and about how many members one may hold on average.
_FEWEST_BINS, _MOST_BINS, _MEMBERS_PER_BIN = 24, 256, 4.0
#: Members of a bin are sorted when they are fewer than its width over this.
_SORTED_SHARE = 4
#: Up to so many members go through buckets.
_FEW_KEYS = 1024
#: A key has a member's place above and its tree in these bits below.
_TREE = 0xFFFFFFFF


@dataclass(frozen=True)
class Leaves:
    """Ranks (n T,) of the n references; members of leaf k stand at starts[k]:starts[k + 1]."""

    starts: NDArray[np.int64]
    members: NDArray[np.int32]
    n: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Members of each leaf: (leaves,)."""
        return np.diff(self.starts)

    def table(self) -> Any:
        """The same as a sparse matrix of ones: (leaves, n)."""
        ones = np.ones(len(self.members))
        return sparse.csr_matrix((ones, self.members, self.starts), (len(self.sizes), self.n))

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
    """The same for compiled loops: one record per leaf, which a query reads in one go.

    Record k stands at starts[k]:starts[k + 1] of the words: first how many members lie up to the
    end of each bin of ranks, then the members' places within their bins; rank r is at place
    r % width of bin r // width. Words have 16 bits where they suffice: what a query costs is
    mostly waiting for memory.
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


def _write_records(leaves: Leaves, bins: int) -> Records:
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
        sizes, members = self.leaves.sizes - self.own_last, self.leaves.table()
        found, alike = _sparse_weights(codes, sizes, members)
        weights: Array = found.toarray()
        weights[alike] = 1.0
        if self.own_last:
            weights[np.arange(len(rows)), rows[:, -1]] = 0.0
        return weights, alike


def _sparse_weights(codes: Codes, sizes: Any, members: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Weights (m, n) that add up to the known trees of each row, and where there is none."""
    known = (codes >= 0) & (sizes[codes] > 0)
    columns, ends = codes[known], np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    query = sparse.csr_matrix((1.0 / sizes[columns], columns, ends), (len(codes), len(sizes)))
    return query @ members, ~np.any(known, axis=1)


@jit(inline="always")
def _step(x: Any, words: Any, reals: Any, node: Any) -> Any:
    """The child that x goes to; unsigned, since signed indices are checked for their sign."""
    feature = np.uint64(words[node, np.uint64(0)])
    return np.uint64(words[node, np.uint64(1)]) + np.uint64(x[feature] > reals[node, np.uint64(3)])


@jit()
def _walk_trees(points: Any, words: Any, reals: Any, roots: Any, codes: Any) -> None:
    """Leaf of each row in each tree: points (m, d) float32 -> codes (m, T).

    Node k has words[k] = (feature, left child, code, threshold), the last as ``reals``, which is
    the same memory read as float32: a node is one look at it. Its right child stands after the
    left one. A leaf is its own left child with an infinite threshold, so that rows that arrive
    early stay there while the three beside them go on.
    """
    last = len(points) - 1
    for t in range(len(roots)):
        for i in range(0, len(points), 4):
            j, k, l = min(i + 1, last), min(i + 2, last), min(i + 3, last)
            xa, xb, xc, xd = points[i], points[j], points[k], points[l]
            a = b = c = d = np.uint64(roots[t])
            while True:
                a1 = _step(xa, words, reals, a)
                b1 = _step(xb, words, reals, b)
                c1 = _step(xc, words, reals, c)
                d1 = _step(xd, words, reals, d)
                if (a1 == a) & (b1 == b) & (c1 == c) & (d1 == d):
                    break
                a, b, c, d = a1, b1, c1, d1
            codes[i, t], codes[j, t] = words[a, 2], words[b, 2]
            codes[k, t], codes[l, t] = words[c, 2], words[d, 2]


# In what follows ``held`` is (starts, records, bins, width, n), ``row`` and ``bin_`` are made by
# `_scratch`, and ``own`` is the rank of a reference that must not count, -1 where all do.


@jit()
def _first_pass(codes: Any, held: Any, own: int, row: Any) -> bool:
    """Mass up to the end of each bin; each tree's record and one member's mass.

    Empty and unknown leaves have mass 0. Where all are, every reference counts alike: True.
    """
    starts, records, bins, width, n = held
    prefix, share, first = row
    own_bin, left_out = (own // width, 1) if own >= 0 else (bins, 0)
    prefix[:] = 0.0
    for t in range(len(codes)):
        share[t] = 0.0
        if codes[t] < 0:
            continue
        start = np.uint64(starts[codes[t]])
        size = np.int64(records[start + np.uint64(bins - 1)]) - left_out
        if size <= 0:
            continue
        one = 1.0 / size
        share[t], first[t] = one, start
        for b in range(own_bin):
            prefix[b] += records[start + np.uint64(b)] * one
        for b in range(own_bin, bins):
            prefix[b] += (np.int64(records[start + np.uint64(b)]) - 1) * one
    if prefix[-1] != 0.0:
        return False
    for b in range(bins):
        end = min((b + 1) * width, n)
        prefix[b] = end - 1 if 0 <= own < end else end
    return True


@jit()
def _gather(records: Any, b: int, row: Any, keys: Any) -> int:
    """Keys of the members in bin b: place in the bin above, tree below; how many."""
    prefix, share, first = row
    found, bins, at = np.uint64(0), np.uint64(len(prefix)), np.uint64(b)
    for t in range(len(share)):
        if share[t] > 0.0:
            start = first[t]
            j = start + bins
            end = j + np.uint64(records[start + at])
            if b > 0:
                j += np.uint64(records[start + at - np.uint64(1)])
            while j < end:
                keys[found] = (np.int64(records[j]) << 32) | t
                found += np.uint64(1)
                j += np.uint64(1)
    return int(found)


@jit()
def _sort(keys: Any, width: int, aside: Any, ends: Any) -> None:
    """Into buckets by place, which leaves little to put in order one by one."""
    if len(keys) > _FEW_KEYS:
        keys.sort()
        return
    shift = 32
    while width >> (shift - 32) >= len(ends):
        shift += 1
    ends[:] = 0
    for key in keys:
        ends[key >> shift] += 1
    for b in range(1, len(ends)):
        ends[b] += ends[b - 1]
    for j in range(len(keys)):
        aside[j] = keys[j]
    for j in range(len(keys) - 1, -1, -1):
        bucket = aside[j] >> shift
        ends[bucket] -= 1
        keys[ends[bucket]] = aside[j]
    for j in range(1, len(keys)):
        key, k = keys[j], j
        while k > 0 and keys[k - 1] > key:
            keys[k] = keys[k - 1]
            k -= 1
        keys[k] = key


@jit()
def _open_bin(records: Any, b: int, own: int, row: Any, bin_: Any) -> int:
    """Second pass: places and weights of the members in bin b, in order; how many.

    A few members are sorted, many are added up over the width of the bin.
    """
    share = row[1]
    keys, dense, places, weights, aside, ends = bin_
    some = keys[: _gather(records, b, row, keys)]
    own_place, count = own - b * len(dense), 0
    if _SORTED_SHARE * len(some) > len(dense):
        dense[:] = 0.0
        for key in some:
            dense[key >> 32] += share[key & _TREE]
        for j in range(len(dense)):
            places[count], weights[count] = j, dense[j]
            # Without a branch: whether a place has weight is anyone's guess.
            count += (dense[j] > 0.0) & (j != own_place)
        return count
    _sort(some, len(dense), aside, ends)
    for key in some:
        if key >> 32 != own_place:
            places[count], weights[count] = key >> 32, share[key & _TREE]
            count += 1
    return count


@jit()
def _open(held: Any, b: int, own: int, alike: bool, row: Any, bin_: Any) -> int:
    """The members of bin b, or all references in it where they count alike; how many."""
    _, records, _, width, n = held
    if not alike:
        return _open_bin(records, b, own, row, bin_)
    places, weights, count = bin_[2], bin_[3], 0
    for rank in range(b * width, min((b + 1) * width, n)):
        if rank != own:
            places[count], weights[count] = rank - b * width, 1.0
            count += 1
    return count


@jit()
def _scratch(bins: int, trees: int, width: int) -> Any:
    """What the first pass fills (mass by bin; share and record by tree), and the second."""
    row = np.empty(bins), np.empty(trees), np.empty(trees, dtype=np.uint64)
    keys, dense = np.empty(trees * width, dtype=np.int64), np.empty(width)
    most = width * (1 + trees // _SORTED_SHARE) + 1
    buckets = np.empty(_FEW_KEYS, dtype=np.int64), np.empty(64, dtype=np.int64)
    return row, (keys, dense, np.empty(most, dtype=np.int64), np.empty(most), *buckets)


@jit()
def _locate(codes: Any, own: Any, held: Any, targets: Any, positions: Any) -> None:
    """First rank at which the law reaches each target (m, L); n where it never does."""
    width, n = held[3], held[4]
    row, bin_ = _scratch(held[2], codes.shape[1], width)
    prefix, places, weights = row[0], bin_[2], bin_[3]
    for i in range(len(codes)):
        alike = _first_pass(codes[i], held, own[i], row)
        opened, count = -1, 0
        for l in range(targets.shape[1]):
            wanted = targets[i, l] * prefix[-1]
            if wanted > prefix[-1]:
                positions[i, l] = n
                continue
            # A bin without members can only be found for a target of 0, whose answer is -inf.
            b = np.searchsorted(prefix, wanted)
            if b != opened:
                count = _open(held, b, own[i], alike, row, bin_)
            opened = b
            running, j = prefix[b - 1] if b > 0 else 0.0, 0
            # The last member of a bin holds the sum of the first pass, which reaches the target.
            while j < count - 1:
                running += weights[j]
                if running >= wanted:
                    break
                j += 1
            positions[i, l] = b * width + (places[j] if count > 0 else 0)


@jit()
def _mass_up_to(codes: Any, own: Any, held: Any, counts: Any, masses: Any) -> None:
    """Share of the mass on references of rank below counts (m, k)."""
    width = held[3]
    row, bin_ = _scratch(held[2], codes.shape[1], width)
    prefix, places, weights = row[0], bin_[2], bin_[3]
    for i in range(len(codes)):
        alike = _first_pass(codes[i], held, own[i], row)
        opened, count = -1, 0
        for l in range(counts.shape[1]):
            if counts[i, l] <= 0:
                masses[i, l] = 0.0
                continue
            b = (counts[i, l] - 1) // width
            if b != opened:
                count = _open(held, b, own[i], alike, row, bin_)
            opened = b
            running, j = prefix[b - 1] if b > 0 else 0.0, 0
            while j < count and b * width + places[j] < counts[i, l]:
                running += weights[j]
                j += 1
            mass = prefix[b] if j == count else min(running, prefix[b])
            masses[i, l] = mass / prefix[-1]


class LeafEngine:
    """Laws of sorted reference scores v (n,) and their leaves, compiled.

    ``find``, rows (m, ...) -> codes (m, T), is called on chunks of rows, in threads.
    """

    def __init__(
        self, v: Array, leaves: Leaves, find: Callable[[Any], Codes], n_jobs: int | None = None
    ) -> None:
        self.v, self.find, self.n_jobs = v, find, n_jobs
        # More bins for larger leaves: a query opens one bin of each tree's leaf.
        typical = len(leaves.members) / max(1, int(np.count_nonzero(leaves.sizes)))
        bins = int(np.clip(typical / _MEMBERS_PER_BIN, _FEWEST_BINS, _MOST_BINS))
        self.records = _write_records(leaves, bins)

    def quantiles(
        self, rows: Any, levels: Array, upper: NDArray[np.bool_], own: Any = None
    ) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L).

        With ``own``, rows are codes, and reference own[i] does not count for row i.
        """
        targets = targets_by_row(levels, upper, len(rows))
        positions = np.empty(targets.shape, dtype=np.int64)
        self._run(_locate, rows, targets, positions, own)
        return scores_at(self.v, positions, targets)

    def cdf(self, rows: Any, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (m, k) -> (m, k)."""
        counts = np.searchsorted(self.v, v, side="right" if side == "right" else "left")
        masses = np.empty(v.shape)
        self._run(_mass_up_to, rows, counts, masses)
        return masses

    def moments(self, rows: Any) -> Array:
        """E V, E|V|, effective sample size, and whether no leaf had members: (m, 4)."""
        n, leaves = len(self.v), self.records.leaves(len(self.v))
        sizes, members = leaves.sizes, leaves.table()
        scores = np.column_stack([self.v, np.abs(self.v), np.ones(n)])
        out = np.empty((len(rows), 4))
        step = max(1, _CHUNK_WEIGHTS // int(min(n, sizes.max() * (len(leaves.members) // n))))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            weights, alike = _sparse_weights(self.find(rows[part]), sizes, members)
            sums = weights @ scores
            weights.data **= 2
            squares = weights @ scores[:, 2]
            sums[alike], squares[alike] = scores.sum(axis=0), n
            out[part, :2] = sums[:, :2] / sums[:, 2:]
            out[part, 2], out[part, 3] = sums[:, 2] ** 2 / squares, alike
        return out

    def _run(self, loop: Any, rows: Any, asked: Any, out: Any, own: Any = None) -> None:
        """Call the loop on chunks of rows, in threads."""
        held = self.records
        inside = (held.starts, held.words, held.bins, held.width, len(self.v))

        def work(part: slice) -> None:
            codes = self.find(rows[part]) if own is None else rows[part]
            mine = np.full(len(codes), -1) if own is None else own[part]
            loop(codes, mine, inside, asked[part], out[part])

        step = int(np.clip(len(rows) // 8, _ROWS_PER_THREAD, _CHUNK_ROWS))
        parts = [slice(i, i + step) for i in range(0, len(rows), step)]
        run_in_threads(work, parts, self.n_jobs, len(parts))


class TreeWalk:
    """Down compiled trees: points (m, d) float32 -> codes (m, T)."""

    def __init__(self, words: NDArray[np.int32], roots: NDArray[np.int64]) -> None:
        self.words, self.roots = words, roots

    def __call__(self, points: NDArray[np.float32]) -> Codes:
        """The leaf of each row in each tree."""
        codes = np.empty((len(points), len(self.roots)), dtype=np.int32)
        reals = self.words.view(np.float32)
        for start in range(0, len(points), _CHUNK_ROWS):
            part = slice(start, start + _CHUNK_ROWS)
            some = np.ascontiguousarray(points[part])
            _walk_trees(some, self.words, reals, self.roots, codes[part])
        return codes


@cache
def load_loops() -> None:
    """Have the loops compiled, or loaded from the disk cache, before anything waits for them."""
    leaves = collect_leaves(np.zeros((1, 1), dtype=np.int32), 1)
    walk = TreeWalk(np.zeros((1, 4), dtype=np.int32), np.zeros(1, dtype=np.int64))
    engine = LeafEngine(np.zeros(1), leaves, walk, 1)
    with compiling():
        engine.quantiles(np.zeros((1, 1), np.float32), np.array([0.5]), np.array([False]))
