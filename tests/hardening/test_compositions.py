"""Every composition keeps its calibration rows, answers row by row, and grows with the level."""

import pytest
from compositions import check

from localconformal.laws import outputs


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    """A small forest wherever a spread is learned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "SPREAD_FORESTS", ((20, 5, 0.5), (10, 30, 1.0)))
        yield


@pytest.mark.parametrize("seed", range(20))
def test_random_compositions(seed):
    check(seed)


@pytest.mark.ci
@pytest.mark.parametrize("hundred", range(1, 11))
def test_many_random_compositions(hundred):
    for seed in range(100 * hundred, 100 * (hundred + 1)):
        check(seed)


#: A line's own residuals, each side by itself.
IN_SAMPLE = {"model": "line", "score": "residual", "sides": "union", "reference": "train"}


@pytest.mark.parametrize(
    ("law", "response"),
    [
        ("shifted", "plain"),
        ("scaled", "tied"),
        ("learned", "heavy-tailed"),
        ("stacked", "heavy-tailed"),
    ],
)
def test_no_calibration_row_is_lost_where_the_law_is_wider_than_the_references(law, response):
    for seed in range(5):
        check(seed, rows="plain", law=law, response=response, adjustment="theta", **IN_SAMPLE)


@pytest.mark.parametrize("adjustment", ["multiplicative", "multiplicative-expectation", "scaled"])
def test_last_bits_of_an_exact_fit_decide_no_bound(adjustment):
    """Every training row is fitted but for rounding; calibration rows are not."""
    for seed in range(3):
        check(
            seed,
            rows="binary",
            response="exact but for some",
            law="shifted",
            adjustment=adjustment,
            **IN_SAMPLE,
        )
