"""The sketch: shards add up, edges and landmarks are kept, its certificate is honoured."""

import warnings

import numpy as np
import pytest

from localconformal import KernelLaw
from localconformal.engine import sketch as loops
from localconformal.engine.choose import Problem, build_engine, rank_error
from localconformal.engine.sketch import Sketch, SketchEngine, choose_edges, choose_landmarks
from registry import ci_but

LEVELS = np.array([0.05, 0.5, 0.95])
H = 2.0


def data(n, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, rng.normal(size=n) * (0.3 + np.abs(X[:, 0]))


def empty(X, v, h=H, r=50):
    return Sketch(choose_landmarks(X, r, 0), choose_edges(v, 0), h)


@pytest.mark.parametrize("shards", [2, 7])
def test_shards_pieces_and_any_order_of_rows_make_the_same_sketch(shards):
    X, v = data(2000)
    whole, merged, grown = empty(X, v).update(X, v), empty(X, v), empty(X, v)
    for rows, scores in zip(np.array_split(X, shards), np.array_split(v, shards), strict=True):
        merged = merged.merge(empty(X, v).update(rows, scores))
        grown.update(rows, scores)
    order = np.random.default_rng(1).permutation(2000)
    for other in (merged, grown.update(X[:0], v[:0]), empty(X, v).update(X[order], v[order])):
        np.testing.assert_allclose(other.sums, whole.sums, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other.extra, whole.extra, rtol=1e-9, atol=1e-9)
        assert (other.n, other.largest) == (whole.n, whole.largest)


def test_sketches_of_different_landmarks_edges_or_bandwidths_do_not_merge():
    one = empty(*data(500))
    for changed in ((one.landmarks + 1, one.edges, H), (one.landmarks, one.edges * 2, H)):
        with pytest.raises(ValueError, match="different landmarks"):
            one.merge(Sketch(*changed))
    with pytest.raises(ValueError, match="different landmarks"):
        one.merge(Sketch(one.landmarks, one.edges, 2 * H))


def test_scores_above_the_last_edge_count_there():
    X, v = data(500)
    sketch = empty(X, v).update(X, v).update(X[:1], np.array([1e6]))
    law = SketchEngine(sketch, None, 1.0, 1)
    assert law.quantiles(X[:1], np.array([1.0]), np.array([False]))[0, 0] == 1e6


def test_edges_are_increasing_scores_and_landmarks_reference_rows_each_once():
    for v in (data(5000)[1], np.zeros(10), np.repeat([1.0, 2.0], 4000), np.array([3.0])):
        edges = choose_edges(v, 0)
        assert np.all(np.diff(edges) > 0)
        assert np.isin(edges, v).all()
        assert edges[-1] == v.max()
    X, _ = data(5000)
    landmarks = choose_landmarks(X, 128, 0)
    assert landmarks.shape == (128, 3)
    assert len(np.unique(landmarks, axis=0)) == 128
    assert np.isin(landmarks[:, 0], X[:, 0]).all()


@pytest.mark.parametrize("h", ci_but([1.5], [1.0, 1.5, 3.0]))
@pytest.mark.parametrize("n", ci_but([4000], [4000, 20_000]))
def test_the_certified_error_holds_on_fresh_rows(n, h):
    X, v = data(n)
    of = Problem(X, v, "gaussian", h, 20.0, 0, 1)
    sketch, report = build_engine("sketch", of, 0.005)
    exact, _ = build_engine("exact", of, 0.005)
    assert rank_error(sketch, exact, data(600, seed=9)[0]) <= 2 * report.certified_error + 0.001


@pytest.mark.parametrize("bandwidth", [2.0, 0.3], ids=["monotone", "not monotone"])
def test_quantile_and_cdf_read_the_same_values_to_the_bit(bandwidth):
    """Calibration may ask for one and prediction for the other: no bit may lie between them."""
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(3000, 4)), rng.normal(size=3000)
    sketch = Sketch(choose_landmarks(X, 96, 0), choose_edges(v, 0, 256), bandwidth).update(X, v)
    engine = SketchEngine(sketch, None, 0.0)
    rows, G = sketch.scale(rng.normal(size=(60, 4))), len(engine.v)
    held = sketch.columns, engine.A, engine.squares, 0.0, 0.0
    values, lost = np.zeros((60, G)), np.zeros(60, dtype=bool)
    loops._values_at(rows, held, np.tile(np.arange(G), (60, 1)), values, lost)
    assert (np.diff(values, axis=1) >= 0).all()
    positions = np.zeros((60, G), dtype=np.int64)
    # Exactly the values, then the next number above each.
    for targets in (values, np.nextafter(values, 2.0)):
        loops._locate(rows, held, np.ascontiguousarray(targets), positions, lost)
        expected = [np.searchsorted(one, t, "left") for one, t in zip(values, targets, strict=True)]
        np.testing.assert_array_equal(positions, expected)


@pytest.mark.parametrize(("share", "said"), [(0.0, False), (0.01, False), (0.02, True)])
def test_new_scores_above_all_old_ones_are_told_when_they_are_many(share, said):
    X, v = data(500)
    engine = SketchEngine(empty(X, v).update(X, v), None, 1.0, 1)
    # Up to the largest, and that very one, is not above.
    new = engine.v[-1] + (np.arange(100) < 100 * share)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        engine.update(X[:100], new)
    assert [f"{share:.1%} of the new scores" in str(one.message) for one in seen] == [True] * said


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**500])
def test_means_of_scores_of_any_size(unit):
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(400, 2)), rng.normal(size=400)
    one, other = (
        KernelLaw(bandwidth=2.0, engine="sketch", random_state=0).fit(X, c * v) for c in (1.0, unit)
    )
    for absolute in (False, True):
        expected = unit * one.mean(X[:50], absolute)
        np.testing.assert_array_equal(other.mean(X[:50], absolute), expected)
        assert np.all(np.isfinite(expected))
