"""Compiled loops of the leaf engine: down the trees, then along the ranks.

The law at x is F(c) = (1 / T) sum_t |{members of leaf_t(x) of rank below c}| / |leaf_t(x)|. Adding
up every member of every leaf would cost as much as the leaves are large. Instead each leaf keeps
its members' ranks in order, and how many of them lie up to the end of each of C bins of ranks:

::

    ranks 0 ... n - 1, in C bins of equal width          members of one leaf, by rank
    |   bin 0   |   bin 1   |   bin 2   |   bin 3   |     [ 3 9 | 17 | | 41 44 46 ]
                                            table of the leaf:  2   3  3       6

    first pass    the T tables of the row, each over its leaf's size, are added up: F at the end
                  of every bin, in C vector operations a tree, whatever the size of the leaves
    second pass   only in the one bin where a level falls: its members, by rank, one by one

* C is about a quarter of the mean size of a leaf, within bounds: a bin holds a few members a tree.
* Four rows go down a tree side by side, without a branch: one row alone would wait for each node
  it loads.
* The law is the same in `leaf_locate` and `leaf_mass`: at the last member of a bin the sum of
  the first pass, before it a running sum capped by that. So quantiles and CDF are exact inverses.
* A row looks at nothing but itself and the references; sums are never reordered (no fast maths):
  batches, threads and chunks do not change a bit of its answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from localconformal.engine.compiler import jit

#: Members of a bin are sorted when they are fewer than its width over this.
SORTED_SHARE = 4
#: Up to so many members go through buckets.
FEW_KEYS = 1024
#: A key has a member's place above and its tree in these bits below.
TREE = 0xFFFFFFFF


@jit(inline="always")
def _step(x: Any, words: Any, reals: Any, node: Any) -> Any:
    """The child that x goes to; unsigned, since signed indices are checked for their sign."""
    feature = np.uint64(words[node, np.uint64(0)])
    return np.uint64(words[node, np.uint64(1)]) + np.uint64(x[feature] > reals[node, np.uint64(3)])


@jit()
def walk_trees(points: Any, words: Any, reals: Any, roots: Any, codes: Any) -> None:
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


@jit()
def _sum_tables(codes: Any, starts: Any, records: Any, own: int, width: int, row: Any) -> bool:
    """First pass: mass up to the end of each bin; each tree's record and one member's mass.

    Empty and unknown leaves have mass 0. Where all are, the answer is True.
    ``own`` is the rank of a reference that must not count, -1 where all do.
    """
    prefix, share, first = row
    bins = len(prefix)
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
    return prefix[-1] == 0.0


@jit()
def _first_pass(
    codes: Any, starts: Any, records: Any, own: int, width: int, n: int, row: Any
) -> bool:
    """Mass up to the end of each bin; whether every reference counts alike."""
    if not _sum_tables(codes, starts, records, own, width, row):
        return False
    prefix = row[0]
    for b in range(len(prefix)):
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
    if len(keys) > FEW_KEYS:
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
    if SORTED_SHARE * len(some) > len(dense):
        dense[:] = 0.0
        for key in some:
            dense[key >> 32] += share[key & TREE]
        for j in range(len(dense)):
            places[count], weights[count] = j, dense[j]
            # Without a branch: whether a place has weight is anyone's guess.
            count += (dense[j] > 0.0) & (j != own_place)
        return count
    _sort(some, len(dense), aside, ends)
    for key in some:
        if key >> 32 != own_place:
            places[count], weights[count] = key >> 32, share[key & TREE]
            count += 1
    return count


@jit()
def _open_alike(width: int, n: int, b: int, own: int, bin_: Any) -> int:
    """The members of bin b where every reference counts alike."""
    places, weights, count = bin_[2], bin_[3], 0
    for rank in range(b * width, min((b + 1) * width, n)):
        if rank != own:
            places[count], weights[count] = rank - b * width, 1.0
            count += 1
    return count


@jit()
def _open(
    records: Any, b: int, own: int, width: int, n: int, alike: bool, row: Any, bin_: Any
) -> int:
    """The members of bin b; how many."""
    if alike:
        return _open_alike(width, n, b, own, bin_)
    return _open_bin(records, b, own, row, bin_)


@jit()
def _scratch(bins: int, trees: int, width: int) -> Any:
    """What the first pass fills (mass by bin; share and record by tree), and the second."""
    row = np.empty(bins), np.empty(trees), np.empty(trees, dtype=np.uint64)
    keys, dense = np.empty(trees * width, dtype=np.int64), np.empty(width)
    most = width * (1 + trees // SORTED_SHARE) + 1
    buckets = np.empty(FEW_KEYS, dtype=np.int64), np.empty(64, dtype=np.int64)
    return row, (keys, dense, np.empty(most, dtype=np.int64), np.empty(most), *buckets)


@jit()
def leaf_locate(
    codes: Any,
    own: Any,
    starts: Any,
    records: Any,
    bins: int,
    width: int,
    n: int,
    targets: Any,
    positions: Any,
) -> None:
    """First rank at which the law reaches each target (m, L); n where it never does."""
    row, bin_ = _scratch(bins, codes.shape[1], width)
    prefix, places, weights = row[0], bin_[2], bin_[3]
    for i in range(len(codes)):
        alike = _first_pass(codes[i], starts, records, own[i], width, n, row)
        opened, count = -1, 0
        for l in range(targets.shape[1]):
            wanted = targets[i, l] * prefix[-1]
            if wanted > prefix[-1]:
                positions[i, l] = n
                continue
            # A bin without members can only be found for a target of 0, whose answer is -inf.
            b = np.searchsorted(prefix, wanted)
            if b != opened:
                count = _open(records, b, own[i], width, n, alike, row, bin_)
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
def leaf_mass(
    codes: Any,
    own: Any,
    starts: Any,
    records: Any,
    bins: int,
    width: int,
    n: int,
    counts: Any,
    masses: Any,
) -> None:
    """Share of the mass on references of rank below counts (m, k)."""
    row, bin_ = _scratch(bins, codes.shape[1], width)
    prefix, places, weights = row[0], bin_[2], bin_[3]
    for i in range(len(codes)):
        alike = _first_pass(codes[i], starts, records, own[i], width, n, row)
        opened, count = -1, 0
        for l in range(counts.shape[1]):
            if counts[i, l] <= 0:
                masses[i, l] = 0.0
                continue
            b = (counts[i, l] - 1) // width
            if b != opened:
                count = _open(records, b, own[i], width, n, alike, row, bin_)
            opened = b
            running, j = prefix[b - 1] if b > 0 else 0.0, 0
            while j < count and b * width + places[j] < counts[i, l]:
                running += weights[j]
                j += 1
            mass = prefix[b] if j == count else min(running, prefix[b])
            masses[i, l] = mass / prefix[-1]


@jit()
def leaf_moments(
    codes: Any, starts: Any, records: Any, bins: int, width: int, means: Any, v: Any, out: Any
) -> None:
    """Mean of v, effective sample size, and whether no leaf had members: out (m, 3).

    ``means`` (leaves,) has the mean of v in each leaf: that of a row is the mean of its leaves'.
    """
    row, _ = _scratch(bins, codes.shape[1], 1)
    _, share, first = row
    weight, everywhere = np.zeros(len(v)), v.mean()
    for i in range(len(codes)):
        alike = _first_pass(codes[i], starts, records, -1, width, len(v), row)
        out[i, 0], out[i, 1], out[i, 2] = everywhere, len(v), alike
        if alike:
            continue
        trees, total, squares = 0, 0.0, 0.0
        for t in range(len(share)):
            if share[t] > 0.0:
                trees += 1
                total += means[codes[i, t]]
                _add_members(records, np.int64(first[t]), bins, width, share[t], weight)
        for t in range(len(share)):
            if share[t] > 0.0:
                squares += _take_squares(records, np.int64(first[t]), bins, width, weight)
        out[i, 0], out[i, 1] = total / trees, trees * trees / squares


@jit()
def _add_members(records: Any, start: int, bins: int, width: int, one: float, weight: Any) -> None:
    """Add a leaf's members to one weight a rank."""
    j = 0
    for b in range(bins):
        while j < records[start + b]:
            weight[b * width + records[start + bins + j]] += one
            j += 1


@jit()
def _take_squares(records: Any, start: int, bins: int, width: int, weight: Any) -> float:
    """Sum of the members' squared weights, set back to 0 where met: each reference counts once."""
    total, j = 0.0, 0
    for b in range(bins):
        while j < records[start + b]:
            rank = b * width + records[start + bins + j]
            total += weight[rank] ** 2
            weight[rank] = 0.0
            j += 1
    return total
