"""Parts are disjoint, complete, of the asked size and fixed by the seed."""

import numpy as np
import pytest

from inner import fold_rows, split_rows


def test_parts_are_disjoint_and_complete_of_the_asked_size_and_fixed_by_the_seed():
    for n in (2, 3, 10, 101):
        for share in (0.25, 0.5, 1):
            first, second = split_rows(n, share, seed=3)
            assert sorted([*first, *second]) == list(range(n))
            assert min(len(first), len(second)) >= 1
    assert len(split_rows(100, 17, seed=0)[1]) == 17
    assert abs(len(split_rows(1_001, 0.25, seed=0)[1]) - 250) <= 1
    first, second = split_rows(5, None, seed=0)
    assert (first.tolist(), len(second)) == (list(range(5)), 0)
    one, again, other = (split_rows(50, 0.3, seed)[1].tolist() for seed in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize(("n", "n_folds", "made"), [(10, 5, 5), (3, 5, 3), (2, 5, 2)])
def test_each_row_is_in_one_fold_and_never_in_its_own_rest(n, n_folds, made):
    folds = fold_rows(n, n_folds, seed=0)
    assert len(folds) == made
    assert sorted(np.concatenate([fold for _, fold in folds])) == list(range(n))
    for rest, fold in folds:
        assert sorted([*rest, *fold]) == list(range(n))


def test_one_row_has_no_parts_and_no_folds():
    with pytest.raises(ValueError, match=r"n_samples=1, .* at least 2.*calibration_size=None"):
        split_rows(1, 0.25, seed=0)
    with pytest.raises(ValueError, match=r"n_samples=1 .*at least 2"):
        fold_rows(1, 5, seed=0)
