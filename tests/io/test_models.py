"""A model from a file is the model that was saved; whatever else a file is ends in one sentence."""

import io
import json
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import skops.io
from model_files import node, refusal, rewritten
from sklearn import ensemble
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import FunctionTransformer

from localconformal import (
    ConformalizedQuantileRegressor,
    KernelLaw,
    LearnedLaw,
    SLCPRegressor,
    SplitConformalRegressor,
)
from localconformal.io import models
from localconformal.io.checks import parts_of
from localconformal.versions import versions
from registry import ESTIMATORS, KINDS, ci_but, light, optional, quiet_catboost, smooth_data


def round_trip(model, folder):
    return models.load_model(models.save_model(model, folder / "model.skops"))


def assert_same_intervals(model, X, folder):
    again = round_trip(model, folder)
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    return again


def mixed_frame(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    X["c"] = pd.Categorical(rng.choice(["u", "v", "w"], n))
    X.loc[::9, "a"] = np.nan
    return X, X["b"].to_numpy() + rng.normal(size=n)


@pytest.mark.filterwarnings("ignore:.*intervals are infinite:UserWarning")
@pytest.mark.parametrize("estimator_class", ci_but(KINDS, ESTIMATORS), ids=lambda cls: cls.__name__)
def test_every_estimator_gives_the_same_bits_also_with_a_new_calibration(estimator_class, tmp_path):
    model = light(estimator_class).fit(*smooth_data(200, 0))
    again = round_trip(model, tmp_path)
    assert str(again.guarantee_) == str(model.guarantee_)
    X, y = smooth_data(60, 1)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    for _ in range(2):
        found, expected = (one.predict_interval(X, [0.5, 0.9]) for one in (again, model))
        np.testing.assert_array_equal(found, expected)
        for one in (again, model):
            one.conformalize(X, y)


FOREST = [
    {"law": "forest", "conformity_score": s}
    for s in ("quantile", "normalised", "response", "absolute")
]
SETTINGS = [{"law": law} for law in ("forest", "uniform")]
SLOW = [{"law": "learned"}, {"law": "neighbors"}, {"law": "auto", "effort": "low"}, *FOREST]


@pytest.mark.parametrize("setting", ci_but(SETTINGS, SETTINGS + SLOW), ids=str)
def test_every_law_and_score_does_on_frames_with_categories_and_gaps(setting, tmp_path):
    X, y = mixed_frame(200, 0)
    base = ensemble.HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=10)
    model = SLCPRegressor(base, reference="holdout", random_state=0, **setting).fit(X, y)
    assert_same_intervals(model, X, tmp_path)


BASES = ["sklearn.ensemble.RandomForestRegressor", "sklearn.ensemble.GradientBoostingRegressor"]
LIBRARIES = ["lightgbm.LGBMRegressor", "xgboost.XGBRegressor"]
TENSORS = [{"device": "cpu", "engine": engine} for engine in ("exact", "sketch")]
LAWS = [{"embedding": one} for one in ("metric", PCA(1), "outputs", "outputs-spread")]


@pytest.mark.parametrize("base", ci_but(BASES, BASES + LIBRARIES))
def test_models_of_others_do(base, tmp_path):
    (package, _, kind), (X, y) = base.rpartition("."), smooth_data(120, 0)
    made = getattr(optional(package), kind)(n_estimators=5)
    assert_same_intervals(SplitConformalRegressor(made, random_state=0).fit(X, y), X, tmp_path)


@pytest.mark.ci
def test_models_of_several_quantiles_do_where_a_file_may_name_them(tmp_path):
    X, y = smooth_data(200, 0)
    three = {"objective": "reg:quantileerror", "quantile_alpha": [0.05, 0.5, 0.95]}
    known = optional("xgboost").XGBRegressor(n_estimators=5, n_jobs=1, **three)
    for base in (known, FrozenEstimator(clone(known).fit(X[:50], y[:50]))):
        for model in (
            ConformalizedQuantileRegressor(base, random_state=0),
            SLCPRegressor(LinearRegression(), law=LearnedLaw(base), random_state=0),
        ):
            assert_same_intervals(model.fit(X[50:], y[50:]), X, tmp_path)
    three = quiet_catboost(loss_function="MultiQuantile:alpha=0.05,0.5,0.95")
    forest = optional("quantile_forest").RandomForestQuantileRegressor(5)
    for base, name in ((three, "CatBoostRegressor"), (forest, "RandomForestQuantileRegressor")):
        model = ConformalizedQuantileRegressor(base, random_state=0).fit(X, y)
        with pytest.raises(models.ModelFileError, match=f"it holds .*{name}.*or pickle it") as said:
            models.save_model(model, tmp_path / "none.skops")
        assert len(str(said.value).splitlines()) == 1


@pytest.mark.parametrize("law", ci_but(LAWS, LAWS + TENSORS), ids=str)
def test_every_embedding_and_tensors_do_also_after_all_was_asked_of_the_model(law, tmp_path):
    if "device" in law:
        optional("torch")
    X, y = smooth_data(300, 0)
    law = KernelLaw(random_state=0, **law)
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, y)
    model.predict_quantiles(X, [0.5])
    model.sample(X[:2], random_state=0)
    model.diagnose(X)
    assert_same_intervals(model, X, tmp_path)


@pytest.mark.ci
def test_what_is_shared_is_written_once_and_shared_again(tmp_path):
    X, y = smooth_data(200, 0)
    base = ensemble.HistGradientBoostingRegressor(max_iter=10)
    model = SLCPRegressor(base, law="forest", reference="holdout", random_state=0).fit(X, y)
    before, again = len(list(parts_of(model))), round_trip(model, tmp_path)
    assert len(list(parts_of(again))) == len(list(parts_of(model))) == before
    assert len(models.model_bytes(model)) < 0.7 * len(skops.io.dumps(model, compression=8))


def test_without_skops_its_extra_is_named(tmp_path, saved, monkeypatch):
    path = tmp_path / "model.skops"
    path.write_bytes(saved)
    model = light(SplitConformalRegressor).fit(*smooth_data(100, 0))
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for call in (
        lambda: models.save_model(model, tmp_path / "other.skops"),
        lambda: models.load_model(path),
    ):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'localconformal\[cli\]'"):
            call()
    assert not (tmp_path / "other.skops").exists()


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    model = SplitConformalRegressor(LinearRegression(), random_state=0).fit(*smooth_data(100, 0))
    model.note_ = FunctionTransformer(print)
    with pytest.raises(models.ModelFileError, match=r"builtins\.print"):
        models.save_model(model, tmp_path / "model.skops")
    model.note_ = lambda x: x
    with pytest.raises(models.ModelFileError):
        models.save_model(model, tmp_path / "model.skops")
    for no_model in ({"a": 1}, np.arange(3), "model", None, SplitConformalRegressor):
        with pytest.raises(models.ModelFileError, match="expected a fitted estimator"):
            models.save_model(no_model, tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


@pytest.mark.ci
def test_a_network_is_refused_in_one_sentence_and_pickled_with_the_same_bits(tmp_path):
    torch = optional("torch")
    from localconformal.torch import TorchEmbedding

    X, y = smooth_data(200, 0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    law = KernelLaw(embedding=TorchEmbedding(network, "1"))
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, y)
    with pytest.raises(models.ModelFileError, match="it holds a PyTorch network") as caught:
        models.save_model(model, tmp_path / "model.skops")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))


EXECUTED = []


class Tells:
    """Unpickling this would be noticed."""

    def __reduce__(self):
        return (EXECUTED.append, ("unpickled",))


@pytest.fixture(scope="module")
def saved():
    return models.model_bytes(light(SLCPRegressor).fit(*smooth_data(120, 0)))


def test_what_is_no_whole_file(tmp_path, saved):
    with pytest.raises(models.ModelFileError, match="does not exist"):
        models.load_model(tmp_path / "none.skops")
    with pytest.raises(models.ModelFileError, match="is a folder"):
        models.load_model(tmp_path)
    for share in (0.0, 0.3, 0.9):
        assert "not a complete model file" in refusal(tmp_path, saved[: int(share * len(saved))])


@pytest.mark.parametrize("times", [100, pytest.param(500, marks=pytest.mark.ci)])
def test_damage_is_refused_or_means_nothing(tmp_path, saved, times):
    X, _ = smooth_data(20, 1)
    path = tmp_path / "model.skops"
    path.write_bytes(saved)
    expected = models.load_model(path).predict_interval(X)
    rng, said = np.random.default_rng(0), []
    for place, lost, added in rng.integers([len(saved), 3, 3], size=(times, 3)):
        path.write_bytes(saved[:place] + rng.bytes(added) + saved[place + lost :])
        try:
            np.testing.assert_array_equal(models.load_model(path).predict_interval(X), expected)
        except models.ModelFileError as error:
            said.append(str(error))
    assert len(said) > times / 2
    assert "\n" not in "".join(said)


def test_a_pickle_is_not_opened_and_a_schema_that_is_none_is_refused(tmp_path, saved):
    assert "not a complete model file" in refusal(tmp_path, pickle.dumps(Tells()))
    harm = io.BytesIO()
    np.save(harm, np.array([Tells()], dtype=object), allow_pickle=True)
    data = rewritten(saved, lambda name, old: harm.getvalue() if name.endswith("npy") else old)
    assert "was altered" in refusal(tmp_path, data)
    assert EXECUTED == []
    deep = "[" * 100_000 + "]" * 100_000
    for schema in (deep, "", "{}", json.dumps(node("NoNode", "a.b"))):
        data = rewritten(saved, lambda name, old, new=schema: new if name == "schema.json" else old)
        assert "was altered" in refusal(tmp_path, data)


@pytest.mark.parametrize("name", ["V", "KernelLaw"])
def test_what_other_versions_wrote_and_does_not_load_names_both(tmp_path, saved, name):
    """An attribute, and a class, that this version does not have."""

    def change(entry, content):
        if entry == models.STAMP:
            assert json.loads(content) == versions(models.STAMPED)
            return json.dumps({"localconformal": "0.0.9", "scikit-learn": "\x1b[31m\n"})
        return content.replace(f'"{name}"'.encode(), b'"Other"')

    said = refusal(tmp_path, rewritten(saved, change))
    assert "written by localconformal 0.0.9, scikit-learn \\x1b[31m" in said
    assert f"this is {', '.join(map(' '.join, versions(models.STAMPED).items()))}" in said
