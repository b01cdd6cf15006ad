"""What every law keeps, by being registered."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from localconformal import DistanceQuantile, KernelLaw, NeighborsLaw
from localconformal.engine.kernels import KERNELS
from localconformal.laws import LAWS, make_law
from localconformal.laws.bandwidth import BANDWIDTHS
from localconformal.quantiles import MASS_GUARD

VARIANTS = {
    **{name: kind() for name, kind in LAWS.items()},
    **{f"kernel-{name}": KernelLaw(name, bandwidth=0.6) for name in KERNELS},
    **{f"bandwidth-{name}": KernelLaw(bandwidth=name) for name in BANDWIDTHS},
    "bandwidth-quantile": KernelLaw(bandwidth=DistanceQuantile(0.1)),
    "bandwidth-narrow": KernelLaw("boxcar", bandwidth=1e-3, min_effective_samples=1),
    "bandwidth-infinite": KernelLaw(bandwidth=np.inf),
    "minibatch": KernelLaw(engine="minibatch", batch_size=0.5),
    "neighbors-1": NeighborsLaw(n_neighbors=1),
    "neighbors-7": NeighborsLaw(n_neighbors=7),
}
LEVELS = np.array([0.0, 0.05, 0.3, 0.5, 0.9, 0.95, 1.0])


def awkward_rows(n, seed):
    """Duplicates, a constant column, ties in v."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), np.full(n, 4.2)])
    X[n // 2 : n // 2 + n // 10] = X[: n // 10]
    return X, rng.integers(-6, 7, n) / 2.0


REFERENCES, SCORES = awkward_rows(90, seed=0)
QUERIES = np.vstack([awkward_rows(15, seed=1)[0], REFERENCES[:5], [[9.0, -4.0, 0.0]]])


def fresh(name):
    """The unfitted law, with a seed where it takes one."""
    law = clone(VARIANTS[name])
    return law.set_params(random_state=0) if "random_state" in law.get_params() else law


@pytest.fixture(params=VARIANTS)
def name(request):
    return request.param


@pytest.fixture
def law(name):
    return fresh(name).fit(REFERENCES, SCORES)


def answers(law, X):
    v = np.tile(np.linspace(-4, 4, 9), (len(X), 1))
    return {
        "quantile": law.quantile(X, LEVELS),
        "upper_quantile": law.upper_quantile(X, LEVELS),
        "cdf": law.cdf(X, v),
        "cdf left": law.cdf(X, v, side="left"),
        "mean": law.mean(X),
        "mean size": law.mean(X, absolute=True),
        "effective_sample_size": law.effective_sample_size(X),
        "fallback": law.fallback(X),
    }


def assert_same(got, expected, exactly=True):
    for key, value in expected.items():
        if exactly or value.dtype == bool:
            np.testing.assert_array_equal(got[key], value, err_msg=key)
        else:
            np.testing.assert_allclose(got[key], value, rtol=1e-9, atol=1e-12, err_msg=key)


def assert_proper(law, X):
    """A finite law whose quantiles are reference scores."""
    found = answers(law, X)
    for key, value in found.items():
        inner = value[:, 1:-1] if "quantile" in key else value
        assert np.all(np.isfinite(inner)), key
    assert np.isin(found["quantile"][:, 1:], law.engine_.v).all()
    assert np.all(found["effective_sample_size"] >= 1 - 1e-9)


def test_the_cdf_is_monotone_between_zero_and_one(law):
    v = np.tile(np.linspace(-4.0, 4.0, 33), (len(QUERIES), 1))
    right, left = law.cdf(QUERIES, v), law.cdf(QUERIES, v, side="left")
    assert np.all(np.diff(right, axis=1) >= 0)
    assert np.all(left <= right)
    assert np.all(right[:, :-1] <= left[:, 1:] + MASS_GUARD)
    np.testing.assert_array_equal(right[:, 0], 0.0)
    np.testing.assert_array_equal(right[:, -1], 1.0)


def test_quantiles_are_monotone_and_the_upper_one_is_above(law):
    lower, upper = law.quantile(QUERIES, LEVELS), law.upper_quantile(QUERIES, LEVELS)
    assert np.all(lower[:, 1:] >= lower[:, :-1])
    assert np.all(upper[:, 1:] >= upper[:, :-1])
    assert np.all(lower <= upper)
    assert np.all(lower[:, 0] == -np.inf)
    assert np.all(upper[:, -1] == np.inf)


def test_the_upper_quantile_inverts_the_left_cdf(law):
    v = np.tile(np.unique(np.append(SCORES, [-9.0, 0.25, 9.0])), (len(QUERIES), 1))
    left = law.cdf(QUERIES, v, side="left")
    for t in [*left[:, ::3].T, *np.broadcast_to(LEVELS[:, None], (len(LEVELS), len(v)))]:
        upper = law.upper_quantile(QUERIES, t[:, None])
        assert np.all((v <= upper)[left <= t[:, None]])
        assert np.all((left <= t[:, None] + 2 * MASS_GUARD)[v <= upper])


def test_the_quantile_inverts_the_cdf(law):
    v = np.tile(np.unique(np.append(SCORES, [-9.0, 0.25, 9.0])), (len(QUERIES), 1))
    right = law.cdf(QUERIES, v)
    for t in [*right[:, ::3].T, *np.broadcast_to(LEVELS[:, None], (len(LEVELS), len(v)))]:
        quantile = law.quantile(QUERIES, t[:, None])
        assert np.all((quantile <= v)[right >= t[:, None]])
        assert np.all((right >= t[:, None] - 2 * MASS_GUARD)[quantile <= v])


def test_one_by_one_is_bit_identical_to_a_batch(law):
    batch = answers(law, QUERIES)
    for i in range(len(QUERIES)):
        alone = answers(law, QUERIES[i : i + 1])
        assert_same(alone, {key: value[i : i + 1] for key, value in batch.items()})


def test_permuting_the_queries_permutes_the_answers(law):
    order = np.random.default_rng(0).permutation(len(QUERIES))
    batch = answers(law, QUERIES)
    assert_same(answers(law, QUERIES[order]), {key: value[order] for key, value in batch.items()})


def test_permuting_the_reference_rows_changes_nothing(name, law):
    order = np.random.default_rng(0).permutation(len(REFERENCES))
    permuted = fresh(name).fit(REFERENCES[order], SCORES[order])
    assert_same(answers(permuted, QUERIES), answers(law, QUERIES), exactly=False)


def test_a_refit_gives_the_same_law_and_keeps_nothing_of_the_last(name, law):
    before = answers(law, QUERIES)
    assert law.fit(*awkward_rows(40, seed=5)) is law
    assert_same(answers(law.fit(REFERENCES, SCORES), QUERIES), before)


def test_a_pickle_is_bit_identical(law):
    assert_same(answers(pickle.loads(pickle.dumps(law)), QUERIES), answers(law, QUERIES))


def test_fitting_and_asking_leave_the_global_seed_alone(name):
    np.random.seed(3)
    state = np.random.get_state()[1].copy()
    answers(fresh(name).fit(REFERENCES, SCORES), QUERIES)
    np.testing.assert_array_equal(np.random.get_state()[1], state)


def test_inputs_are_not_written_to(name):
    X, v, Q = REFERENCES.copy(), SCORES.copy(), QUERIES.copy()
    answers(fresh(name).fit(X, v), Q)
    for after, before in ((X, REFERENCES), (v, SCORES), (Q, QUERIES)):
        np.testing.assert_array_equal(after, before)


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def every_second_row(X):
    return np.repeat(X, 2, axis=0)[::2]


@pytest.mark.parametrize(
    "layout", [np.asfortranarray, read_only, every_second_row, np.ndarray.tolist]
)
def test_the_layout_of_the_arrays_does_not_matter(name, law, layout):
    other = fresh(name).fit(layout(REFERENCES), layout(SCORES))
    assert_same(answers(other, layout(QUERIES)), answers(law, QUERIES), exactly=False)


def test_memory_mapped_arrays_work(name, law, tmp_path):
    for label, part in (("X", REFERENCES), ("v", SCORES), ("Q", QUERIES)):
        np.save(tmp_path / f"{label}.npy", part)
    X, v, Q = (np.load(tmp_path / f"{label}.npy", mmap_mode="r") for label in "XvQ")
    assert_same(answers(fresh(name).fit(X, v), Q), answers(law, QUERIES))


def test_float32_is_computed_in_double_precision(name):
    X, v, Q = (part.astype(np.float32) for part in (REFERENCES, SCORES, QUERIES))
    narrow = answers(fresh(name).fit(X, v), Q)
    wide = answers(fresh(name).fit(*(part.astype(float) for part in (X, v))), Q.astype(float))
    assert_same(narrow, wide)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_reference_rows_are_enough(name, n):
    assert_proper(fresh(name).fit(REFERENCES[:n], SCORES[:n]), QUERIES)


def test_equal_scores_give_a_point_mass(name):
    law = fresh(name).fit(REFERENCES, np.full(len(REFERENCES), 3.0))
    np.testing.assert_array_equal(law.quantile(QUERIES, LEVELS[1:]), 3.0)
    np.testing.assert_allclose(law.mean(QUERIES), 3.0)


def test_coinciding_rows_share_the_law_of_all_scores(name):
    law = fresh(name).fit(np.ones((90, 3)), SCORES)
    assert_proper(law, QUERIES)
    if name != "minibatch":
        share = np.mean(SCORES <= 0.0)
        np.testing.assert_allclose(law.cdf(np.ones((1, 3)), [0.0]), share, rtol=1e-9)


@pytest.mark.parametrize("far", [1e6, 1e30])
def test_far_away_rows_get_a_finite_law_that_is_flagged(law, far):
    X = np.array([[far, 0.0, 0.0], [-far, far, far]])
    assert_proper(law, X)
    if isinstance(law, KernelLaw) and np.isfinite(law.bandwidth_):
        assert law.fallback(X).all()


def test_levels_may_differ_by_row(law):
    levels = np.random.default_rng(0).random((len(QUERIES), 3))
    for ask in (law.quantile, law.upper_quantile):
        together = ask(QUERIES, levels)
        for i in range(len(QUERIES)):
            np.testing.assert_array_equal(together[i], ask(QUERIES[i : i + 1], levels[i])[0])


def test_the_cdf_takes_one_or_several_values_a_row(law):
    v = np.random.default_rng(0).normal(size=(len(QUERIES), 3))
    table = law.cdf(QUERIES, v)
    assert table.shape == v.shape
    for column in range(3):
        np.testing.assert_array_equal(law.cdf(QUERIES, v[:, column]), table[:, column])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(name, bad):
    with pytest.raises(ValueError, match=r"1 of 90 reference scores are NaN or infinite"):
        fresh(name).fit(REFERENCES, np.append(SCORES[:-1], bad))


def test_no_rows_and_unequal_lengths_are_refused(name):
    with pytest.raises(ValueError, match="0 reference rows"):
        fresh(name).fit(REFERENCES[:0], SCORES[:0])
    with pytest.raises(ValueError, match=r"90 rows and v has 89"):
        fresh(name).fit(REFERENCES, SCORES[:-1])


@pytest.mark.parametrize("levels", [[-0.1], [1.1], [np.nan], [0.5, 2.0]])
def test_levels_outside_the_unit_interval_are_refused(law, levels):
    for ask in (law.quantile, law.upper_quantile):
        with pytest.raises(ValueError, match=r"levels are .*\[0, 1\]"):
            ask(QUERIES, levels)


def test_an_unknown_side_is_refused(law):
    with pytest.raises(ValueError, match=r"side is 'middle'.*'right' or 'left'"):
        law.cdf(QUERIES, np.zeros(len(QUERIES)), side="middle")


@pytest.mark.parametrize("registered", LAWS)
def test_names_make_fresh_laws_and_objects_are_cloned(registered):
    assert type(make_law(registered)) is LAWS[registered]
    given = LAWS[registered]()
    assert make_law(given) is not given
