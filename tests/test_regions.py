"""Unions of intervals against loops over their pieces."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from localconformal import Region
from localconformal.quantiles import Support

EDGES = np.array([-2.0, -1.5, 0.0, 0.25, 3.0, 3.5, 7.0])
KEPT = hnp.arrays(bool, st.tuples(st.integers(1, 6), st.just(6))).filter(
    lambda keep: keep.any(axis=1).all()
)


@given(keep=KEPT, seed=st.integers(0, 100))
def test_a_region_of_bins_is_their_union(keep, seed):
    region = Region.of_bins(keep, EDGES)
    y = np.random.default_rng(seed).choice(np.concatenate([EDGES, EDGES[1:] - 0.1]), len(keep))
    expected = [
        any(keep[i, k] and EDGES[k] <= y[i] <= EDGES[k + 1] for k in range(6))
        for i in range(len(keep))
    ]
    np.testing.assert_array_equal(region.contains(y), expected)
    np.testing.assert_allclose(region.length, (keep * np.diff(EDGES)).sum(axis=1))
    for row, (lower, upper) in enumerate(region.hull):
        pieces = region[row]
        assert lower == pieces[0][0] == EDGES[:-1][keep[row]].min()
        assert upper == pieces[-1][1] == EDGES[1:][keep[row]].max()
        assert len(pieces) == region.n_pieces[row]
        # Neighbours are joined: something lies between any two pieces.
        assert all(a[1] < b[0] for a, b in pairwise(pieces))


@given(keep=KEPT)
def test_rows_can_be_taken_and_put_together(keep):
    region, order = Region.of_bins(keep, EDGES), np.random.default_rng(0).permutation(len(keep))
    taken = region[order]
    assert [taken[i] for i in range(len(keep))] == [region[int(i)] for i in order]
    again = Region.concatenate([region[:1], region[1:]])
    assert [again[i] for i in range(len(keep))] == [region[i] for i in range(len(keep))]
    assert region[-1] == region[len(region) - 1]


def test_the_whole_line_and_no_rows():
    region = Region([-np.inf, 0.0], [np.inf, 1.0], [0, 1, 2])
    np.testing.assert_array_equal(region.length, [np.inf, 1.0])
    np.testing.assert_array_equal(region.contains([1e300, 1e300]), [True, False])
    assert repr(region) == "Region(2 pieces of 2 rows)"
    none = region[:0]
    assert none.hull.shape == (0, 2)
    assert len(none) == len(none.length) == len(none.contains([])) == 0
    assert len(Region.concatenate([])) == len(Region.concatenate([none, none])) == 0


@pytest.mark.parametrize(
    "parts",
    [
        ([0.0], [1.0], [0, 0, 1]),
        ([0.0], [-1.0], [0, 1]),
        ([0.0], [np.nan], [0, 1]),
        ([0.0, 1.0], [1.0], [0, 1]),
        ([0.0], [1.0], [0, 2]),
        ([0.0], [1.0], []),
    ],
)
def test_what_is_no_region_and_what_no_row_can_be_asked(parts):
    with pytest.raises(ValueError, match="expected"):
        Region(*parts)
    region = Region([0.0], [1.0], [0, 1])
    with pytest.raises(ValueError, match=r"shape \(2,\); expected \(1,\), one per row"):
        region.contains([0.0, 1.0])
    with pytest.raises(IndexError):
        region[1]


@pytest.mark.parametrize("support", [Support(-0.5, 3.2), Support(4.0), Support(-1.0, 4.0, True)])
@given(keep=KEPT)
def test_within_a_support_no_value_of_it_is_lost(keep, support):
    region = Region.of_bins(keep, EDGES)
    cut = region.within(support)
    assert np.all(cut.length <= region.length)
    for y in np.arange(-2.0, 7.5, 1.0 if support.whole else 0.25):
        before, after = (one.contains(np.full(len(keep), y)) for one in (region, cut))
        possible = support.low <= y <= support.high
        # A row that has nothing left is a point.
        np.testing.assert_array_equal(after[cut.length > 0], (before & possible)[cut.length > 0])
        assert np.all(after >= (before & possible))
    np.testing.assert_array_equal(support.nearest(cut.starts), cut.starts)
    np.testing.assert_array_equal(support.nearest(cut.ends), cut.ends)
