"""What every law keeps, by being registered."""

import pickle
from dataclasses import is_dataclass
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest
from law_variants import (
    DISCRETE,
    LAST_BITS,
    SLOW,
    VARIANTS,
    WITH_OUTPUTS,
    WITH_TOLERANCE,
    fit,
    point,
)
from sklearn.base import BaseEstimator

import localconformal.engine
import localconformal.laws
from inner import few_trees, told  # noqa: F401
from localconformal import KernelLaw
from localconformal.quantiles import MASS_GUARD
from registry import ci_but

LEVELS = np.array([0.0, 0.05, 0.3, 0.5, 0.9, 0.95, 1.0])


def awkward_rows(n, seed):
    """Duplicates, a constant column, ties in v."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), np.full(n, 4.2)])
    X[n // 2 : n // 2 + n // 10] = X[: n // 10]
    return X, rng.integers(-6, 7, n) / 2.0


REFERENCES, SCORES = awkward_rows(90, seed=0)
QUERIES = np.vstack([awkward_rows(15, seed=1)[0], REFERENCES[:5], [[9.0, -4.0, 0.0]]])


@pytest.fixture(params=ci_but(VARIANTS.keys() - SLOW, VARIANTS), scope="module")
def name(request):
    return request.param


@pytest.fixture(scope="module")
def law(name):
    return fit(name, REFERENCES, SCORES)


def ends(law, X):
    """The smallest and the largest value of the law at each row: (n, 2)."""
    return np.hstack([law.upper_quantile(X, [0.0]), law.quantile(X, [1.0])])


def rounding(law, X):
    """Units of v that rounding of a line may cost at each row: (n, 1)."""
    of_lines = not isinstance(law, DISCRETE)
    return of_lines * 1e-12 * np.abs(ends(law, X)).max(axis=1, keepdims=True)


def some_values(law, X):
    """Values at, between and beyond those of the law: (n, k)."""
    v = np.tile(np.unique(np.append(SCORES, [-9.0, 0.25, 9.0])), (len(X), 1))
    return np.sort(np.hstack([v, law.quantile(X, np.linspace(0.02, 0.98, 9))]), axis=1)


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


def assert_same(got, expected, rtol=0.0):
    for key, value in expected.items():
        if rtol == 0.0 or value.dtype == bool:
            np.testing.assert_array_equal(got[key], value, err_msg=key)
        else:
            np.testing.assert_allclose(got[key], value, rtol=rtol, atol=1e-12, err_msg=key)


def assert_proper(law, X, v=SCORES):
    """A finite law whose quantiles are reference scores, or between its ends."""
    found = answers(law, X)
    for key, value in found.items():
        inner = value[:, 1:-1] if "quantile" in key else value
        assert np.all(np.isfinite(inner)), key
    lowest, highest = ends(law, X).T[:, :, None]
    inner = found["quantile"][:, 1:]
    assert np.all((lowest <= inner) & (inner <= highest))
    assert np.isin(inner, v).all() or not isinstance(law, DISCRETE)
    assert np.all(found["effective_sample_size"] >= 1 - 1e-9)


def test_cdf_and_quantiles_are_monotone_from_end_to_end(law):
    inner = np.tile(np.linspace(-3.9, 3.9, 31), (len(QUERIES), 1))
    v = np.sort(np.hstack([inner, ends(law, QUERIES) + np.array([-1.0, 1.0])]), axis=1)
    right, left = law.cdf(QUERIES, v), law.cdf(QUERIES, v, side="left")
    assert np.all(np.diff(right, axis=1) >= 0)
    assert np.all(left <= right)
    assert np.all(right[:, :-1] <= left[:, 1:] + MASS_GUARD)
    np.testing.assert_array_equal(right[:, 0], 0.0)
    np.testing.assert_array_equal(right[:, -1], 1.0)
    lower, upper = law.quantile(QUERIES, LEVELS), law.upper_quantile(QUERIES, LEVELS)
    assert np.all(lower[:, 1:] >= lower[:, :-1])
    assert np.all(upper[:, 1:] >= upper[:, :-1])
    assert np.all(lower <= upper)
    assert np.all(lower[:, 0] == -np.inf)
    assert np.all(upper[:, -1] == np.inf)


def test_quantiles_and_cdf_are_inverses(law):
    v, slack = some_values(law, QUERIES), rounding(law, QUERIES)
    fixed = np.tile(LEVELS, (len(QUERIES), 1))
    left, before = law.cdf(QUERIES, v, side="left"), law.cdf(QUERIES, v - slack, side="left")
    t = np.hstack([left[:, ::3], fixed])
    # (n, levels, values)
    reached = v[:, None] <= law.upper_quantile(QUERIES, t)[:, :, None]
    # What validity needs is exact; the other way, rounding may only enlarge.
    assert np.all(reached[left[:, None] <= t[:, :, None]])
    assert np.all((before[:, None] <= t[:, :, None] + 2 * MASS_GUARD)[reached])
    right, after = law.cdf(QUERIES, v), law.cdf(QUERIES, v + slack)
    t = np.hstack([right[:, ::3], fixed])
    reached = law.quantile(QUERIES, t)[:, :, None] <= v[:, None]
    assert np.all(reached[right[:, None] >= t[:, :, None]])
    assert np.all((after[:, None] >= t[:, :, None] - 2 * MASS_GUARD)[reached])


def test_one_by_one_in_any_order_and_pickled_is_bit_identical_to_a_batch(name, law):
    batch, order = answers(law, QUERIES), np.random.default_rng(0).permutation(len(QUERIES))
    for some in (order, *([i] for i in range(0, len(QUERIES), 4))):
        expected = {key: value[some] for key, value in batch.items()}
        assert_same(answers(law, QUERIES[some]), expected, LAST_BITS.get(name, 0.0))
    assert_same(answers(pickle.loads(pickle.dumps(law)), QUERIES), batch)


def test_levels_and_values_may_differ_by_row(name, law):
    levels = np.random.default_rng(0).random((len(QUERIES), 3))
    for ask in (law.quantile, law.upper_quantile):
        together = ask(QUERIES, levels)
        for i in range(0, len(QUERIES), 5):
            alone = ask(QUERIES[i : i + 1], levels[i])[0]
            np.testing.assert_allclose(together[i], alone, rtol=LAST_BITS.get(name, 0.0))
        np.testing.assert_array_equal(ask(QUERIES, 0.5), ask(QUERIES, [0.5]))
    table = law.cdf(QUERIES, levels)
    assert table.shape == levels.shape
    np.testing.assert_array_equal(law.cdf(QUERIES, levels[:, 1]), table[:, 1])


def test_the_order_of_reference_rows_does_not_matter_and_a_refit_forgets(name, law):
    expected = answers(law, QUERIES)
    order = np.random.default_rng(0).permutation(len(REFERENCES))
    again = fit(name, REFERENCES[order], SCORES[order])
    assert_same(answers(again, QUERIES), expected, rtol=1e-9)
    known = told(point if name in WITH_OUTPUTS else None, REFERENCES, SCORES)
    assert again.fit(known, SCORES) is again
    assert_same(answers(again, QUERIES), expected)
    assert vars(again).keys() == vars(law).keys()


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_unit_of_the_scores_does_not_matter(name, law, sign):
    unit = 2.0 ** (sign * (3 if name in WITH_TOLERANCE else 30))
    scaled = fit(name, REFERENCES, unit * SCORES, unit)
    for ask in ("quantile", "upper_quantile"):
        expected = unit * getattr(law, ask)(QUERIES, LEVELS)
        found = getattr(scaled, ask)(QUERIES, LEVELS)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * unit, err_msg=ask)
    np.testing.assert_allclose(scaled.mean(QUERIES), unit * law.mean(QUERIES), atol=1e-6 * unit)


def changed(layout, part, folder):
    if layout == "file":
        np.save(folder / f"{part.size}.npy", part)
        return np.load(folder / f"{part.size}.npy", mmap_mode="r")
    if layout == "every second row":
        part = np.repeat(part, 2, axis=0)[::2]
    part = {"list": np.ndarray.tolist, "columns": np.asfortranarray}.get(layout, np.asarray)(part)
    return np.float32(part) if layout == "float32" else part


@pytest.mark.parametrize(
    "layout",
    ci_but(["every second row"], ["every second row", "columns", "list", "float32", "file"]),
)
def test_neither_layout_nor_precision_matters_and_nothing_is_written_to(name, layout, tmp_path):
    parts = [np.float32(part).astype(float) for part in (REFERENCES, SCORES, QUERIES)]
    expected = answers(fit(name, *parts[:2]), parts[2])
    np.random.seed(3)
    state = np.random.get_state()[1].copy()
    X, v, Q = given = [changed(layout, part, tmp_path) for part in parts]
    assert_same(answers(fit(name, X, v), Q), expected, rtol=1e-9)
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    for after, before in zip(given, parts, strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_reference_rows_are_enough(name, n):
    assert_proper(fit(name, REFERENCES[:n], SCORES[:n]), QUERIES, SCORES[:n])


def test_equal_scores_give_a_point_mass(name):
    law = fit(name, REFERENCES, np.full(len(REFERENCES), 3.0))
    quantiles = law.quantile(QUERIES, LEVELS[1:])
    if name in WITH_OUTPUTS and not isinstance(law, DISCRETE) and name != "learned-outputs":
        # y - mu(x) = 3 at reference rows only: laws of y see no point mass.
        assert np.all(np.isfinite(quantiles))
        return
    np.testing.assert_allclose(quantiles, 3.0, rtol=0.0 if isinstance(law, DISCRETE) else 1e-9)
    np.testing.assert_allclose(law.mean(QUERIES), 3.0)


def test_coinciding_rows_share_the_law_of_all_scores(name):
    law = fit(name, np.ones((90, 3)), SCORES)
    assert_proper(law, QUERIES)
    if name not in ("minibatch", "outputs-spread", "learned-fitted"):
        # Between two scores; knots are at few levels, so that a line between two may be long.
        share, error = np.mean(SCORES <= 0.25), 1e-9 if isinstance(law, DISCRETE) else 0.08
        np.testing.assert_allclose(law.cdf(np.ones((1, 3)), [0.25]), share, atol=error)


@pytest.mark.parametrize("far", [1e6, 1e30])
def test_far_away_rows_get_a_finite_law_that_is_flagged(law, far):
    X = np.array([[far, 0.0, 0.0], [-far, far, far]])
    assert_proper(law, X)
    if isinstance(law, KernelLaw) and np.isfinite(law.bandwidth_):
        assert law.fallback(X).all()


def test_what_cannot_be_fitted_is_refused(name):
    for bad in (np.nan, -np.inf):
        with pytest.raises(ValueError, match="1 of 90 reference scores are NaN or infinite"):
            fit(name, REFERENCES, np.append(SCORES[1:], bad))
    with pytest.raises(ValueError, match="0 reference rows"):
        fit(name, REFERENCES[:0], SCORES[:0])
    with pytest.raises(ValueError, match="90 rows and v has 89"):
        fit(name, REFERENCES, SCORES[1:])


def test_what_cannot_be_asked_is_refused(law):
    for levels in ([-0.1], [1.1], [np.nan], [0.5, 2.0], 2.0):
        for ask in (law.quantile, law.upper_quantile):
            with pytest.raises(ValueError, match=r"levels=.*\[0, 1\]"):
                ask(QUERIES, levels)
    with pytest.raises(ValueError, match=r"side='middle'.*'right' or 'left'"):
        law.cdf(QUERIES, np.zeros(len(QUERIES)), side="middle")
    with pytest.raises(ValueError, match="NaN in v"):
        law.cdf(QUERIES, np.full(len(QUERIES), np.nan))


def test_parts_of_laws_and_engines_cannot_be_changed_after_fit():
    packages = localconformal.engine, localconformal.laws
    modules = [
        import_module(module.name)
        for package in packages
        for module in iter_modules(package.__path__, f"{package.__name__}.")
    ]
    named = {kind for module in modules for kind in vars(module).values() if is_dataclass(kind)}
    # Parameters of estimators are set as scikit-learn sets them.
    parts = {kind for kind in named if not issubclass(kind, BaseEstimator)}
    assert len(parts) > 12
    assert not [kind.__name__ for kind in parts if not kind.__dataclass_params__.frozen]
