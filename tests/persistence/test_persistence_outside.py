"""A model from a file has no cache, no callbacks, and no settings that name files or hosts."""

import inspect
import re

import numpy as np
import pandas as pd
import pytest
import skops.io
from lightgbm import LGBMRegressor
from sklearn.base import clone
from sklearn.cluster import FeatureAgglomeration
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import all_estimators
from xgboost import XGBRegressor

from localconformal import SLCPRegressor, SplitConformalRegressor
from localconformal.io.checks import HARMLESS, parts_of
from localconformal.io.models import ModelFileError, load_model, model_bytes, save_model
from localconformal.workflow.base_models import make_base_model
from registry import smooth_data

#: Names of parameters that may lead out of a model.
SUSPECT = re.compile("mem|cache|path|file|dir|folder|callback|input|url|hook|save|load|host|port")
#: Those of scikit-learn that take numbers, words or names of features.
PLAIN = {
    "cache_size",
    "direction",
    "fit_path",
    "importance_getter",
    "input_type",
    "path_method",
    "support_fraction",
    "transform_input",
}


def parameters():
    """(estimator, parameter) of all that scikit-learn has."""
    for _, kind in all_estimators():
        for name in inspect.signature(kind).parameters:
            yield kind, name


SUSPECTS = [(kind, name) for kind, name in parameters() if SUSPECT.search(name)]
CACHING = [kind for kind, name in SUSPECTS if name == "memory"]
OTHERS = [pair for pair in SUSPECTS if pair[1] in HARMLESS and pair[1] != "memory"]


def made(kind, **settings):
    """An estimator with these settings, whatever else its constructor asks for."""
    needed = {
        Pipeline: {"steps": [("scale", StandardScaler()), ("model", LinearRegression())]},
        # Its default, np.mean, is on no list.
        FeatureAgglomeration: {"pooling_func": np.maximum},
    }
    return kind(**needed.get(kind, {}), **settings)


def written(model, folder):
    """The file that a stranger would send: skops itself looks at no setting."""
    path = folder / "model.skops"
    path.write_bytes(skops.io.dumps(model))
    return path


def refused(model, folder, words):
    """Neither loaded nor saved, in one sentence each."""
    with pytest.raises(ModelFileError, match=words) as caught:
        load_model(written(model, folder))
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelFileError, match=words):
        model_bytes(SplitConformalRegressor(model))


def test_every_suspect_parameter_of_scikit_learn_is_known():
    assert {name for _, name in SUSPECTS} <= PLAIN | set(HARMLESS)
    assert Pipeline in CACHING


#: Ways to hide a transformer or a regressor in another estimator.
NESTED = {
    "alone": lambda part: part,
    "Pipeline": lambda part: Pipeline([("part", part), ("last", LinearRegression())]),
    "FeatureUnion": lambda part: FeatureUnion([("part", part)]),
    "ColumnTransformer": lambda part: ColumnTransformer([("part", part, [0, 1])]),
    "remainder": lambda part: ColumnTransformer([("one", "drop", [0])], remainder=part),
    "GridSearchCV": lambda part: GridSearchCV(part, {"part__alpha": [0.1]}),
    "grid": lambda part: GridSearchCV(
        Pipeline([("a", "passthrough"), ("b", Ridge())]), {"a": [part]}
    ),
    "StackingRegressor": lambda part: StackingRegressor([("part", part)], final_estimator=part),
    "VotingRegressor": lambda part: VotingRegressor([("part", part)]),
    "BaggingRegressor": BaggingRegressor,
    "TransformedTargetRegressor": lambda part: TransformedTargetRegressor(
        Ridge(), transformer=part
    ),
    "SLCPRegressor": SLCPRegressor,
}


@pytest.mark.parametrize("nest", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize("kind", CACHING, ids=lambda kind: kind.__name__)
def test_a_cache_does_not_come_with_the_model(tmp_path, kind, nest):
    path = written(nest(made(kind, memory=str(tmp_path / "cache"))), tmp_path)
    found = [part.memory for part in parts_of(load_model(path)) if hasattr(part, "memory")]
    assert found
    assert set(found) == {None}


@pytest.mark.parametrize("name", ["alone", "StackingRegressor", "BaggingRegressor"])
def test_a_loaded_model_writes_nothing_when_it_is_fitted(tmp_path, name):
    place = tmp_path / "cache"
    model = NESTED[name](made(Pipeline, memory=str(place)))
    X, y = smooth_data(60, 0)
    rows = pd.DataFrame(X, columns=["a", "b"])
    clone(model).fit(rows, y)
    assert place.exists(), "without this the test says nothing"
    place.rename(tmp_path / "elsewhere")
    path = written(model, tmp_path)
    load_model(path).fit(rows, y)
    make_base_model(str(path), "split", 0).fit(rows, y)
    assert not place.exists()


def test_a_fitted_model_with_a_cache_is_saved_and_predicts_the_same(tmp_path):
    X, y = smooth_data(80, 0)
    base = made(Pipeline, memory=str(tmp_path / "cache"))
    model = SplitConformalRegressor(base, random_state=0).fit(X, y)
    again = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    assert again.estimator.memory is None
    assert model.estimator.memory == str(tmp_path / "cache")


@pytest.mark.parametrize(("kind", "name"), OTHERS, ids=lambda one: getattr(one, "__name__", one))
def test_what_else_leads_out_is_refused(tmp_path, kind, name):
    harm = "filename" if name == "input" else np.exp
    refused(kind(**{name: harm}), tmp_path, f"{kind.__name__} has {name}=")
    part = Pipeline([("part", kind(**{name: harm})), ("last", LinearRegression())])
    refused(StackingRegressor([("deep", part)]), tmp_path, f"{kind.__name__} has {name}=")


PATH = "somewhere/else"
REACHING = {
    "a grid with a cache": GridSearchCV(made(Pipeline), {"memory": [None, PATH]}),
    "a grid deep inside": GridSearchCV(
        TransformedTargetRegressor(made(Pipeline)), [{}, {"regressor__memory": (PATH,)}]
    ),
    "draws of a cache": RandomizedSearchCV(made(Pipeline), {"memory": np.array([PATH], object)}),
    "a grid of files": GridSearchCV(LGBMRegressor(), {"forcedsplits_filename": [PATH]}),
    "LightGBM and files": LGBMRegressor(forcedsplits_filename=PATH),
    "LightGBM and hosts": LGBMRegressor(machines="203.0.113.1:1234", num_machines=2),
    "LightGBM and a list": LGBMRegressor(machine_list_file=[PATH]),
    "XGBoost and callbacks": XGBRegressor(callbacks=[np.exp]),
    "XGBoost and files": XGBRegressor(log_file=PATH),
}


@pytest.mark.parametrize("model", REACHING.values(), ids=REACHING)
def test_paths_hosts_and_callbacks_are_refused(tmp_path, model):
    refused(model, tmp_path, "leads out of the model")


KEPT = {
    "a grid of steps": GridSearchCV(
        made(Pipeline), {"scale": ["passthrough", StandardScaler()], "model__fit_intercept": [True]}
    ),
    "a grid of words": GridSearchCV(SLCPRegressor(), {"law": ["forest", "uniform"]}),
    "LightGBM's metric": LGBMRegressor(metric="l1", boosting="dart", min_data_in_bin=1),
    "XGBoost's method": XGBRegressor(tree_method="hist", eval_metric="mae", rate_drop=0.5),
}


@pytest.mark.parametrize("model", KEPT.values(), ids=KEPT)
def test_other_settings_come_with_the_model(tmp_path, model):
    again = load_model(save_model(model, tmp_path / "model.skops"))
    assert repr(again) == repr(model)
