"""The leaf engine: laws on the references that share leaves with a row.

w_i(x) = (1 / T) sum_t 1{X_i in leaf_t(x)} / |leaf_t(x)|. Leaves are numbered across all trees,
from 0; a row is represented by its T codes, -1 for a leaf without references. Such trees are left
out of the average; a row with only such leaves gets the law of all references, and is flagged.
Compiled loops go down the trees, then along the ranks.

The cost of adding up every member of every leaf would grow with the size of the leaves. Instead,
each leaf keeps its members' ranks in order, and how many lie up to the end of each of C rank bins:

::

    ranks 0 ... n - 1, in C bins of equal width          members of one leaf, by rank
    |   bin 0   |   bin 1   |   bin 2   |   bin 3   |     [ 3 9 | 17 | | 41 44 46 ]
                                            table of the leaf:  2   3  3       6

    first pass    the T tables of the row, each over its leaf's size, are added up: F at the end
                  of every bin, in C vector operations per tree, for any size of leaves
    second pass   only in the one bin that contains a level: its members, by rank, one by one

* C is about a quarter of the mean size of a leaf, within bounds: a bin has a few members per tree.
* Four rows go down a tree side by side, without branches: a single row would wait for each node.
* The law is the same in `_locate` and `_mass_up_to`, and sums are never reordered, as in `exact`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.columns import check_width
from localconformal.engine import Engine, jit, run_in_threads
from localconformal.quantiles import Array

Codes = NDArray[np.int32]

#: Query rows a thread takes at a time: enough to reuse a tree while it is in the cache.
_CHUNK_ROWS = 2048
#: Rows that make another thread worthwhile.
_ROWS_PER_THREAD = 256
#: Fewest and most bins of ranks, and the approximate mean number of members per bin.
_FEWEST_BINS, _MOST_BINS, _MEMBERS_PER_BIN = 24, 256, 4.0
#: Members of a bin are sorted when they are fewer than its width over this.
_SORTED_SHARE = 4
#: Up to this many members are sorted by buckets.
_FEW_KEYS = 1024
#: The bits of a key for the tree; the member's place is in the bits above.
_TREE = 0xFFFFFFFF


@dataclass(frozen=True)
class _Records:
    """Leaves for compiled loops: one record per leaf, which a query reads at once.

    Record k is at starts[k]:starts[k + 1] of the words: first how many members lie up to the end
    of each bin of ranks, then the members' places within their bins; rank r is at place r % width
    of bin r // width. Words have 16 bits if that is enough: most of a query's time is spent waiting
    for memory.
    """

    starts: NDArray[np.int64]
    words: NDArray[Any]
    bins: int
    width: int

    @classmethod
    def of(cls, starts: NDArray[np.int64], members: NDArray[np.int32], n: int) -> _Records:
        """From ranks below n; those in leaf k are at starts[k]:starts[k + 1]."""
        sizes = np.diff(starts)
        # More bins for larger leaves: a query opens one bin of each tree's leaf.
        typical = len(members) / max(1, int(np.count_nonzero(sizes)))
        bins = int(np.clip(typical / _MEMBERS_PER_BIN, _FEWEST_BINS, _MOST_BINS))
        width = -(-n // min(bins, n))
        bins = -(-n // width)
        of_member = np.repeat(np.arange(len(sizes)), sizes)
        cells = np.bincount(of_member * bins + members // width, minlength=len(sizes) * bins)
        small = max(sizes.max(), width) < 2**16
        starts = starts + bins * np.arange(len(starts))
        words = np.empty(starts[-1], dtype=np.uint16 if small else np.uint32)
        words[starts[:-1, None] + np.arange(bins)] = np.cumsum(cells.reshape(-1, bins), axis=1)
        words[np.arange(len(of_member)) + bins * (of_member + 1)] = members % width
        return cls(starts, words, bins, width)


@jit(inline="always")
def _step(x: Any, words: Any, reals: Any, node: Any) -> Any:
    """The child that x goes to; unsigned, since signed indices would be checked."""
    feature = np.uint64(words[node, np.uint64(0)])
    return np.uint64(words[node, np.uint64(1)]) + np.uint64(x[feature] > reals[node, np.uint64(3)])


@jit()
def _walk_trees(points: Any, words: Any, reals: Any, roots: Any, codes: Any) -> None:
    """Leaf of each row in each tree: points (m, d) float32 -> codes (m, T).

    Node k has words[k] = (feature, left child, code, threshold), the last in ``reals``, the same
    memory read as float32: a node takes one memory access. Its right child follows the left one. A
    leaf is its own left child with an infinite threshold, so rows that arrive early stay there
    while the other three go on.
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


# Below, ``held`` is (starts, records, bins, width, n), and the rest comes from `_scratch`.


@jit()
def _first_pass(codes: Any, held: Any, row: Any) -> bool:
    """Fill the mass up to the end of each bin; each tree's record and the mass of one member.

    Empty and unknown leaves have mass 0. If all are such, all references count equally: True.
    """
    starts, records, bins, width, n = held
    prefix, share, first = row
    prefix[:] = 0.0
    for t in range(len(codes)):
        share[t] = 0.0
        if codes[t] < 0:
            continue
        start = np.uint64(starts[codes[t]])
        size = np.int64(records[start + np.uint64(bins - 1)])
        if size == 0:
            continue
        one = 1.0 / size
        share[t], first[t] = one, start
        for b in range(bins):
            prefix[b] += records[start + np.uint64(b)] * one
    if prefix[-1] != 0.0:
        return False
    for b in range(bins):
        prefix[b] = min((b + 1) * width, n)
    return True


@jit()
def _gather(records: Any, b: int, row: Any, keys: Any) -> int:
    """Fill keys of the members in bin b (high bits: place, low bits: tree); return how many."""
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
    """Sort by buckets of places, then by insertion, which is left with little to do."""
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
def _open(held: Any, b: int, alike: bool, row: Any, bin_: Any) -> int:
    """Second pass: fill places and weights of the members in bin b, in order; return how many.

    A few members are sorted, many are added up over the width of the bin; if ``alike``, all
    references are members.
    """
    _, records, _, width, n = held
    keys, dense, places, weights, aside, ends = bin_
    count, share = 0, row[1]
    if alike:
        for j in range(min((b + 1) * width, n) - b * width):
            places[j], weights[j] = j, 1.0
            count += 1
        return count
    some = keys[: _gather(records, b, row, keys)]
    if _SORTED_SHARE * len(some) > len(dense):
        dense[:] = 0.0
        for key in some:
            dense[key >> 32] += share[key & _TREE]
        for j in range(len(dense)):
            places[count], weights[count] = j, dense[j]
            # Without a branch: whether a place has weight is unpredictable.
            count += dense[j] > 0.0
        return count
    _sort(some, len(dense), aside, ends)
    for key in some:
        places[count], weights[count] = key >> 32, share[key & _TREE]
        count += 1
    return count


@jit()
def _scratch(bins: int, trees: int, width: int) -> Any:
    """Arrays for the first pass (mass by bin; share and record by tree), and for the second."""
    row = np.empty(bins), np.empty(trees), np.empty(trees, dtype=np.uint64)
    keys, dense = np.empty(trees * width, dtype=np.int64), np.empty(width)
    most = width * (1 + trees // _SORTED_SHARE) + 1
    buckets = np.empty(_FEW_KEYS, dtype=np.int64), np.empty(64, dtype=np.int64)
    return row, (keys, dense, np.empty(most, dtype=np.int64), np.empty(most), *buckets)


@jit()
def _locate(codes: Any, held: Any, targets: Any, positions: Any) -> None:
    """First rank at which the law reaches each target (m, L); n if it never does."""
    width, n = held[3], held[4]
    row, bin_ = _scratch(held[2], codes.shape[1], width)
    prefix, places, weights = row[0], bin_[2], bin_[3]
    for i in range(len(codes)):
        alike = _first_pass(codes[i], held, row)
        opened, count = -1, 0
        for l in range(targets.shape[1]):
            wanted = targets[i, l] * prefix[-1]
            if wanted > prefix[-1]:
                positions[i, l] = n
                continue
            # Only a target of 0, whose answer is -inf, can lead to a bin without members.
            b = np.searchsorted(prefix, wanted)
            if b != opened:
                count = _open(held, b, alike, row, bin_)
            opened = b
            running, j = prefix[b - 1] if b > 0 else 0.0, 0
            # The last member of a bin has the sum of the first pass, which reaches the target.
            while j < count - 1:
                running += weights[j]
                if running >= wanted:
                    break
                j += 1
            positions[i, l] = b * width + (places[j] if count > 0 else 0)


@jit()
def _mass_up_to(codes: Any, held: Any, counts: Any, masses: Any) -> None:
    """Share of the mass on references of rank below counts (m, k)."""
    width = held[3]
    row, bin_ = _scratch(held[2], codes.shape[1], width)
    prefix, places, weights = row[0], bin_[2], bin_[3]
    for i in range(len(codes)):
        alike = _first_pass(codes[i], held, row)
        opened, count = -1, 0
        for l in range(counts.shape[1]):
            if counts[i, l] <= 0:
                masses[i, l] = 0.0
                continue
            b = (counts[i, l] - 1) // width
            if b != opened:
                count = _open(held, b, alike, row, bin_)
            opened = b
            running, j = prefix[b - 1] if b > 0 else 0.0, 0
            while j < count and b * width + places[j] < counts[i, l]:
                running += weights[j]
                j += 1
            mass = prefix[b] if j == count else min(running, prefix[b])
            masses[i, l] = mass / prefix[-1]


@jit()
def _moments_of(v: Any, codes: Any, held: Any, _: Any, out: Any) -> None:
    """Means of v and |v|, effective sample size, whether no leaf had members: out (m, 4)."""
    starts, records, bins, width, n = held
    weights, met = np.zeros(n), np.empty(n, dtype=np.int64)
    for i in range(len(codes)):
        found = 0
        for code in codes[i]:
            start, j = starts[code] if code >= 0 else 0, 0
            size = np.int64(records[start + bins - 1]) if code >= 0 else 0
            for b in range(bins if size > 0 else 0):
                while j < records[start + b]:
                    rank = b * width + np.int64(records[start + bins + j])
                    if weights[rank] == 0.0:
                        met[found] = rank
                        found += 1
                    weights[rank] += 1.0 / size
                    j += 1
        alike = found == 0
        if alike:
            met[:], weights[:], found = np.arange(n), 1.0, n
        total, squares, mean, absolute = 0.0, 0.0, 0.0, 0.0
        for rank in met[:found]:
            w = weights[rank]
            total, squares = total + w, squares + w * w
            mean, absolute = mean + w * v[rank], absolute + w * abs(v[rank])
            weights[rank] = 0.0
        out[i, 0], out[i, 1] = mean / total, absolute / total
        out[i, 2], out[i, 3] = total * total / squares, alike


class LeafEngine(Engine):
    """Laws of sorted reference scores v (n,), compiled.

    Ranks of the members of leaf k are members[starts[k]:starts[k + 1]]. ``find``, rows
    (m, ...) -> codes (m, T), is called on chunks of rows, in threads.
    """

    _loops = _locate, _mass_up_to, _moments_of

    def __init__(
        self,
        v: Array,
        starts: NDArray[np.int64],
        members: NDArray[np.int32],
        find: Callable[[Any], Codes],
        n_jobs: int | None = None,
    ) -> None:
        self.v, self.find, self.n_jobs = v, find, n_jobs
        self.records = _Records.of(starts, members, len(v))

    def _run(self, loop: Callable[..., None], rows: Any, asked: Any, out: Any) -> Any:
        """``out``, filled on chunks of rows, in threads."""
        held = self.records
        inside = (held.starts, held.words, held.bins, held.width, len(self.v))

        def work(part: slice) -> None:
            codes = self.find(rows[part])
            # Codes may come from a model file, and the loops do not check them.
            if codes.max(initial=-1) >= len(held.starts) - 1:
                raise ValueError("got the code of a leaf that does not exist; fit the law again.")
            loop(codes, inside, asked[part], out[part])

        step = int(np.clip(len(rows) // 8, _ROWS_PER_THREAD, _CHUNK_ROWS))
        parts = [slice(i, i + step) for i in range(0, len(rows), step)]
        run_in_threads(work, parts, self.n_jobs, len(parts))
        return out


@dataclass(frozen=True)
class TreeWalk:
    """Walk down compiled trees: points (m, d) float32 -> codes (m, T)."""

    words: NDArray[np.int32]
    roots: NDArray[np.int64]
    n_columns: int

    def __call__(self, points: NDArray[np.float32]) -> Codes:
        """The leaf of each row in each tree."""
        check_width(points, self.n_columns)
        codes = np.empty((len(points), len(self.roots)), dtype=np.int32)
        reals = self.words.view(np.float32)
        for start in range(0, len(points), _CHUNK_ROWS):
            part = slice(start, start + _CHUNK_ROWS)
            some = np.ascontiguousarray(points[part])
            _walk_trees(some, self.words, reals, self.roots, codes[part])
        return codes
