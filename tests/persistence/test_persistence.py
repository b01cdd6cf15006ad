"""A model from a file is the model that was saved; no file makes anything else."""

import sys

import numpy as np
import pandas as pd
import pytest
import skops.io
from lightgbm import LGBMRegressor
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import FunctionTransformer
from xgboost import XGBRegressor

from localconformal import SLCPRegressor, SplitConformalRegressor
from localconformal.io.checks import parts_of
from localconformal.io.models import ModelFileError, is_allowed, load_model, model_bytes, save_model
from localconformal.laws.blend_models import default_models
from registry import ESTIMATORS, light, smooth_data


def round_trip(model, folder):
    return load_model(save_model(model, folder / "model.skops"))


def mixed_frame(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    X["c"] = pd.Categorical(rng.choice(["u", "v", "w"], n))
    X.loc[::9, "a"] = np.nan
    return X, X["b"].to_numpy() + rng.normal(size=n)


class TestRoundTrip:
    def test_every_estimator_gives_the_same_bits(self, estimator_class, tmp_path):
        X, y = smooth_data(200, 0)
        model = light(estimator_class).fit(X, y)
        again = round_trip(model, tmp_path)
        new, _ = smooth_data(40, 1)
        for level in (0.9, [0.5, 0.8]):
            np.testing.assert_array_equal(
                again.predict_interval(new, level), model.predict_interval(new, level)
            )
        np.testing.assert_array_equal(again.predict(new), model.predict(new))
        assert str(again.guarantee_) == str(model.guarantee_)

    @pytest.mark.parametrize("law", ["forest", "learned", "neighbors", "uniform"])
    def test_every_law_does_on_frames_with_categories_and_gaps(self, law, tmp_path):
        X, y = mixed_frame(200, 0)
        base = HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=10)
        model = SLCPRegressor(base, law=law, reference="holdout", random_state=0).fit(X, y)
        again = round_trip(model, tmp_path)
        np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))

    @pytest.mark.parametrize("name", default_models(0))
    def test_every_model_that_auto_may_blend_does(self, name, tmp_path):
        X, y = smooth_data(120, 0)
        model = default_models(0)[name].fit(X, y)
        np.testing.assert_array_equal(round_trip(model, tmp_path).predict(X), model.predict(X))

    def test_what_auto_chooses_does(self, tmp_path):
        X, y = mixed_frame(300, 0)
        base = HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=10)
        model = SLCPRegressor(base, reference="holdout", random_state=0, selection_budget=1)
        again = round_trip(model.fit(X, y), tmp_path)
        np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))

    @pytest.mark.ci
    @pytest.mark.parametrize("score", ["quantile", "normalised", "response", "absolute"])
    def test_every_score_does(self, score, tmp_path):
        X, y = smooth_data(200, 0)
        base = HistGradientBoostingRegressor(max_iter=10)
        model = SLCPRegressor(base, score=score, law="forest", reference="holdout", random_state=0)
        again = round_trip(model.fit(X, y), tmp_path)
        np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))

    @pytest.mark.parametrize(
        "base",
        [
            RandomForestRegressor(5),
            GradientBoostingRegressor(n_estimators=5),
            LGBMRegressor(n_estimators=5, verbose=-1),
            XGBRegressor(n_estimators=5),
        ],
        ids=lambda base: type(base).__name__,
    )
    def test_models_of_trees_do(self, base, tmp_path):
        X, y = smooth_data(120, 0)
        model = SplitConformalRegressor(base, random_state=0).fit(X, y)
        again = round_trip(model, tmp_path)
        np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))

    @pytest.mark.ci
    def test_what_is_shared_is_written_once_and_shared_again(self, tmp_path):
        X, y = smooth_data(200, 0)
        base = HistGradientBoostingRegressor(max_iter=10)
        model = SLCPRegressor(base, law="forest", reference="holdout", random_state=0).fit(X, y)
        before = len(list(parts_of(model)))
        again = round_trip(model, tmp_path)
        assert len(list(parts_of(again))) == len(list(parts_of(model))) == before
        assert len(model_bytes(model)) < 0.7 * len(skops.io.dumps(model, compression=8))

    def test_a_loaded_model_takes_a_new_calibration_set(self, tmp_path):
        X, y = smooth_data(200, 0)
        model = light(SLCPRegressor).fit(X, y)
        again = round_trip(model, tmp_path)
        fresh = smooth_data(100, 1)
        expected = model.conformalize(*fresh).predict_interval(X)
        np.testing.assert_array_equal(again.conformalize(*fresh).predict_interval(X), expected)


class TestSaving:
    def test_without_skops_its_extra_is_named(self, tmp_path, monkeypatch):
        model = light(SplitConformalRegressor).fit(*smooth_data(100, 0))
        path = save_model(model, tmp_path / "model.skops")
        monkeypatch.setitem(sys.modules, "skops.io", None)
        for call in (lambda: save_model(model, tmp_path / "other.skops"), lambda: load_model(path)):
            with pytest.raises(ModuleNotFoundError, match=r"pip install 'localconformal\[cli\]'"):
                call()
        assert not (tmp_path / "other.skops").exists()

    def test_what_could_not_be_loaded_is_not_saved(self, tmp_path):
        X, y = smooth_data(100, 0)
        model = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
        model.note_ = FunctionTransformer(print)
        with pytest.raises(ModelFileError, match=r"builtins\.print"):
            save_model(model, tmp_path / "model.skops")
        model.note_ = lambda x: x
        with pytest.raises(ModelFileError):
            save_model(model, tmp_path / "model.skops")
        for no_model in ({"a": 1}, np.arange(3), "model", None, SplitConformalRegressor):
            with pytest.raises(ModelFileError, match="which is no estimator"):
                save_model(no_model, tmp_path / "model.skops")
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "localconformal.io.files.write_whole",
        "localconformal.cli.main",
        "localconformal.regressors.base.np",
        "localconformal.regressors.base.BaseEstimator",
        "localconformal.regressors.nothing.Here",
        "localconformal",
        "localconformalevil.regressors.Thing",
        "",
    ],
)
def test_only_classes_of_the_parts_of_a_model_are_on_the_list(name):
    assert not is_allowed(name)


def test_every_estimator_is_on_the_list():
    assert all(is_allowed(f"{cls.__module__}.{cls.__name__}") for cls in ESTIMATORS)
