"""Nothing that a model file names is called, refers outside the model, or leads loops astray."""

import inspect
import io
import json
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import skops
import skops.io
from model_files import node, refusal, rewritten, with_estimator
from sklearn import ensemble
from sklearn.base import clone
from sklearn.cluster import FeatureAgglomeration
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import all_estimators

from inner import LeafWeights, ReferenceEngine
from localconformal import KernelLaw, SLCPRegressor, SplitConformalRegressor
from localconformal.engine.leaves import LeafEngine, TreeWalk
from localconformal.engine.trees import Boosting, Forest
from localconformal.io import models
from localconformal.io.checks import HARMLESS, check_model, check_nodes, parts_of
from localconformal.tabular.model import make_base_model
from registry import ci_but, optional, smooth_data


@pytest.fixture(scope="module")
def saved():
    X, y = smooth_data(120, 0)
    return models.model_bytes(SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y))


@pytest.fixture
def unread(monkeypatch):
    """skops may say what a file names, and read none."""
    monkeypatch.setattr(skops.io, "loads", lambda *_, **__: pytest.fail("it was read"))


NO_PART_OF_A_MODEL = ["cli.main", "io.files.write_whole", "io.models.ModelFileError"]
NO_PART_OF_A_MODEL += ["distributed.models.Training", "distributed.graph.Call"]
NO_PART_OF_A_MODEL += ["regressors.base.np", "regressors.base.BaseEstimator"]
NO_PART_OF_A_MODEL += ["regressors.nothing.Here", "tabular.compare.Ranking", "tabular.run.Run"]
#: Functions on the list: they take arrays alone.
FUNCTIONS = {"functools.partial", "numpy.asarray", "numpy.dtype"}
FUNCTIONS |= {"sklearn.compose._column_transformer.make_column_selector"}
FUNCTIONS |= {"sklearn.utils.validation.check_array"}


def test_what_calls_reads_or_writes_or_is_no_part_of_a_model_is_on_no_list():
    names = [f"localconformal.{name}" for name in NO_PART_OF_A_MODEL]
    names += ["", "localconformal", "localconformalevil.regressors.Thing"]
    assert [name for name in names if models.is_allowed(name)] == []
    assert {name for name in models.FURTHER_TYPES if name.rpartition(".")[2].islower()} == FUNCTIONS


def text(value):
    return node("JsonNode", "builtins.str", content=json.dumps(value), is_json=True)


def listed(*content, kind="list"):
    return node(f"{kind.title()}Node", f"builtins.{kind}", content=list(content))


#: Name that is on no list -> the kind of node that would call, make or import it.
OUTSIDE = {
    "os.system": "FunctionNode",
    "subprocess.Popen": "ConstructorFromReduceNode",
    "operator.methodcaller": "OperatorFuncNode",
    "joblib.memory.Memory": "ObjectNode",
    "sklearn.utils._testing.delete_folder": "FunctionNode",
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_type_outside_the_list_is_named_and_not_made(tmp_path, saved, unread, name):
    arguments = listed(text("id"))
    harm = node(OUTSIDE[name], name, content=arguments, attrs=arguments)
    assert name in refusal(tmp_path, with_estimator(saved, harm))
    # However long, and whatever a terminal would obey in it.
    long = node(OUTSIDE[name], "\x1b[31m\n." + "x" * 10**5, content=arguments, attrs=arguments)
    refusal(tmp_path, with_estimator(saved, long))


LISTED = "sklearn.linear_model._base.LinearRegression"


def dict_of(key_type, key="key"):
    return node("DictNode", "builtins.dict", key_types=listed(key_type), content={key: text(None)})


#: What skops 0.11 took: it looked at the type of a method's object, not at the method.
METHOD = node("MethodNode", LISTED, content={"obj": node("ObjectNode", LISTED), "func": "fit"})
PATH = listed(text("somewhere"), kind="tuple")
#: A constructor, put off until a key is made.
PARTIAL = {
    "func": node("TypeNode", LISTED),
    "args": PATH,
    "kwds": node("DictNode", "builtins.dict", key_types=listed(), content={}),
    "namespace": text(None),
}
CALLING = {
    "a method": dict_of(METHOD),
    # A key that says it is a text, with the id of a method.
    "a method's id": listed(
        {**METHOD, "__id__": 7}, dict_of(node("TypeNode", "builtins.str", __id__=7))
    ),
    "a constructor": node("ConstructorFromReduceNode", LISTED, content=PATH),
    "an id twice": listed(
        node("TypeNode", "builtins.str", __id__=7), node("ObjectNode", LISTED, __id__=7)
    ),
    "a key by a partial": dict_of(node("PartialNode", "functools.partial", content=PARTIAL)),
    "a partial": node("PartialNode", "functools.partial", content=PARTIAL),
    "a key": dict_of(node("TypeNode", "localconformal.composition.Sides")),
}


@pytest.mark.parametrize("way", CALLING)
def test_nothing_that_a_file_names_is_called(tmp_path, saved, unread, way):
    data = with_estimator(saved, CALLING[way])
    refusal(tmp_path, data)
    # Whatever the installed skops would say.
    with pytest.raises(ValueError, match=r"would call something|same id|unknown function|a call"):
        check_nodes(data)


def test_an_old_skops_is_refused_before_it_sees_a_file(tmp_path, saved, monkeypatch):
    monkeypatch.setattr(skops, "__version__", "0.11.0")
    for name in ("loads", "dumps", "get_untrusted_types"):
        monkeypatch.setattr(skops.io, name, lambda *_, **__: pytest.fail("it was asked"))
    assert "skops 0.11.0 is installed" in refusal(tmp_path, saved)
    with pytest.raises(models.ModelFileError, match=re.escape("pip install 'skops>=0.12'")):
        models.save_model(SplitConformalRegressor(), tmp_path / "made.skops")
    assert not (tmp_path / "made.skops").exists()


#: Names of parameters that may lead out of a model.
SUSPECT = re.compile("mem|cache|path|file|dir|folder|callback|input|url|hook|save|load|host|port")
#: Those of scikit-learn that take numbers, words or names of features.
PLAIN = {"cache_size", "direction", "fit_path", "importance_getter", "input_type", "path_method"}
PLAIN |= {"support_fraction", "transform_input"}
SUSPECTS = [
    (kind, name)
    for _, kind in all_estimators()
    for name in inspect.signature(kind).parameters
    if SUSPECT.search(name)
]
CACHING = [kind for kind, name in SUSPECTS if name == "memory"]
OTHERS = [pair for pair in SUSPECTS if pair[1] in HARMLESS and pair[1] != "memory"]


def made(kind, **settings):
    needed = {
        Pipeline: {"steps": [("scale", StandardScaler()), ("model", LinearRegression())]},
        # Its default, np.mean, is on no list.
        FeatureAgglomeration: {"pooling_func": np.maximum},
    }
    return kind(**needed.get(kind, {}), **settings)


def refused(model, folder, words):
    assert re.search(words, refusal(folder, skops.io.dumps(model)))
    with pytest.raises(models.ModelFileError, match=words):
        models.model_bytes(SplitConformalRegressor(model))


def test_every_suspect_parameter_of_scikit_learn_is_known():
    assert {name for _, name in SUSPECTS} <= PLAIN | set(HARMLESS)
    assert Pipeline in CACHING


NESTED = {
    "alone": lambda part: part,
    "Pipeline": lambda part: Pipeline([("part", part), ("last", LinearRegression())]),
    "union": lambda part: FeatureUnion([("part", part)]),
    "columns": lambda part: ColumnTransformer([("part", part, [0, 1])]),
    "remainder": lambda part: ColumnTransformer([("one", "drop", [0])], remainder=part),
    "search": lambda part: GridSearchCV(part, {"part__alpha": [0.1]}),
    "grid": lambda part: GridSearchCV(Pipeline([("a", "passthrough")]), {"a": [part]}),
    "stack": lambda part: ensemble.StackingRegressor([("part", part)], final_estimator=part),
    "vote": lambda part: ensemble.VotingRegressor([("part", part)]),
    "bag": ensemble.BaggingRegressor,
    "target": lambda part: TransformedTargetRegressor(Ridge(), transformer=part),
    "SLCPRegressor": SLCPRegressor,
}


@pytest.mark.parametrize("nest", NESTED.values(), ids=NESTED)
def test_a_cache_does_not_come_with_the_model(tmp_path, nest):
    path = tmp_path / "model.skops"
    for kind in CACHING:
        # skops itself looks at no setting.
        path.write_bytes(skops.io.dumps(nest(made(kind, memory=str(tmp_path / "cache")))))
        found = [
            part.memory for part in parts_of(models.load_model(path)) if hasattr(part, "memory")
        ]
        assert set(found) == {None}, kind.__name__


@pytest.mark.parametrize("name", ["alone", "stack", "bag"])
def test_a_loaded_model_writes_nothing_when_it_is_fitted(tmp_path, name):
    place, path = tmp_path / "cache", tmp_path / "model.skops"
    model = NESTED[name](made(Pipeline, memory=str(place)))
    X, y = smooth_data(60, 0)
    rows = pd.DataFrame(X, columns=["a", "b"])
    clone(model).fit(rows, y)
    assert place.exists(), "without this the test says nothing"
    place.rename(tmp_path / "elsewhere")
    path.write_bytes(skops.io.dumps(model))
    models.load_model(path).fit(rows, y)
    make_base_model(str(path), "split", 0).fit(rows, y)
    fitted = SplitConformalRegressor(model, random_state=0)
    models.load_model(models.save_model(fitted, path)).fit(rows, y)
    assert not place.exists()
    assert {part.memory for part in parts_of(fitted) if hasattr(part, "memory")} == {str(place)}


@pytest.mark.parametrize(("kind", "name"), OTHERS, ids=lambda one: getattr(one, "__name__", one))
def test_what_else_leads_out_is_refused(tmp_path, kind, name):
    harm = kind(**{name: "filename" if name == "input" else np.exp})
    refused(harm, tmp_path, f"{kind.__name__} has {name}=")
    part = Pipeline([("part", harm), ("last", LinearRegression())])
    refused(ensemble.StackingRegressor([("deep", part)]), tmp_path, f"{kind.__name__} has {name}=")


ELSEWHERE = "somewhere/else"


def test_searches_that_would_try_a_cache_are_refused_and_other_settings_come_along(tmp_path):
    deep = TransformedTargetRegressor(made(Pipeline))
    for search in (
        GridSearchCV(made(Pipeline), {"memory": [None, ELSEWHERE]}),
        GridSearchCV(deep, [{}, {"regressor__memory": (ELSEWHERE,)}]),
        RandomizedSearchCV(made(Pipeline), {"memory": np.array([ELSEWHERE], object)}),
    ):
        refused(search, tmp_path, "refers outside the model")
    steps = {"scale": ["passthrough", StandardScaler()], "model__fit_intercept": [True]}
    words = {"law": ["forest", "uniform"]}
    for model in (GridSearchCV(made(Pipeline), steps), GridSearchCV(SLCPRegressor(), words)):
        assert repr(models.load_model(models.save_model(model, tmp_path / "model.skops"))) == repr(
            model
        )


@pytest.mark.ci
def test_paths_hosts_and_callbacks_of_boosting_libraries_are_refused(tmp_path):
    lightgbm, xgboost = optional("lightgbm").LGBMRegressor, optional("xgboost").XGBRegressor
    for model in (
        GridSearchCV(lightgbm(), {"forcedsplits_filename": [ELSEWHERE]}),
        lightgbm(forcedsplits_filename=ELSEWHERE),
        lightgbm(machines="203.0.113.1:1234", num_machines=2),
        lightgbm(machine_list_file=[ELSEWHERE]),
        xgboost(callbacks=[np.exp]),
        xgboost(log_file=ELSEWHERE),
    ):
        refused(model, tmp_path, "refers outside the model")
    for model in (
        lightgbm(metric="l1", boosting="dart", min_data_in_bin=1),
        xgboost(tree_method="hist", eval_metric="mae", rate_drop=0.5),
    ):
        assert repr(models.load_model(models.save_model(model, tmp_path / "model.skops"))) == repr(
            model
        )


def test_a_tree_that_leads_outside_itself_or_its_features_is_refused(tmp_path):
    X, y = smooth_data(120, 0)
    forest = SplitConformalRegressor(ensemble.RandomForestRegressor(2), random_state=0).fit(X, y)
    boosting = ensemble.HistGradientBoostingRegressor(max_iter=2)
    boosted = SplitConformalRegressor(boosting, random_state=0).fit(X, y)
    tree, nodes = forest.score_.model_.estimators_[0].tree_, boosted.score_.model_._predictors[0][0]
    for names, words in (
        (("feature", "feature_idx"), "a feature that does not exist"),
        (("left_child", "left"), "outside itself"),
    ):
        state = tree.__getstate__()
        state["nodes"][names[0]][0] = nodes.nodes[names[1]][0] = 10**6
        tree.__setstate__(state)
        for model in (forest, boosted):
            assert words in refusal(tmp_path, models.model_bytes(model))


def filled(name, old):
    """Every whole number of an array exchanged for the largest."""
    array = np.load(io.BytesIO(old)) if name.endswith("npy") else np.zeros(0)
    if array.dtype.kind not in "iu":
        return old
    out = io.BytesIO()
    np.save(out, np.full_like(array, np.iinfo(array.dtype).max))
    return out.getvalue()


def localized(**law):
    model = SLCPRegressor(LinearRegression(), law=KernelLaw(**law), random_state=0)
    return model.fit(*smooth_data(200, 0))


def leaves_of_few_rows():
    codes = (np.arange(60) % 2).astype(np.int32)[:, None]
    return [ReferenceEngine(np.linspace(-1, 1, 60), LeafWeights.of(codes, 2))]


def leaves_of_one_split():
    """One tree: x <= 0 is leaf 0, the others leaf 1."""
    words = np.array([[0, 1, -1, 0], [0, 1, 0, 0], [0, 2, 1, 0]], dtype=np.int32)
    words.view(np.float32)[:, 3] = [0.0, np.inf, np.inf]
    members = np.arange(60, dtype=np.int32).reshape(30, 2).T.ravel()
    walk, v = TreeWalk(words, np.array([0]), 1), np.linspace(-1, 1, 60)
    return [LeafEngine(v, np.array([0, 30, 60]), members, walk)]


def default():
    return SLCPRegressor(random_state=0).fit(*smooth_data(200, 0))


@pytest.mark.ci
def test_indices_out_of_range_are_refused(tmp_path):
    base = ensemble.RandomForestRegressor(3, random_state=0)
    forest = SLCPRegressor(base, law="forest", reference="holdout", random_state=0)
    for model in (forest.fit(*smooth_data(200, 0)), default()):
        assert "was altered" in refusal(tmp_path, rewritten(models.model_bytes(model), filled))


CHANGES = {
    "beyond": lambda a: np.where(a >= 0, 30_000, a),
    "column": lambda a: a | np.uint64(2**30),
    "cycle": lambda a: a * 0,
    "leaf": lambda a: np.where(a == 255, np.uint64(254), a),
    "less": lambda a: a - 1,
    "loop": lambda a: a & np.uint64(2**32 - 1),
    "more": lambda a: a + 1,
    "nan": lambda a: a * np.nan,
    "narrower": lambda a: a[..., :-1],
    "other": lambda a: np.zeros(7),
    "real": np.float64,
    "reversed": lambda a: a[::-1],
    "right": lambda a: a | np.uint64(2**40),
    "shorter": lambda a: a[:-1],
    "twofold": np.atleast_2d,
    "wrapped": lambda a: a.astype(np.uint64) + 2**63,
}
#: Model -> a kind of part, what it holds, and where in that -> what compiled loops must not meet.
ALTERED = {
    localized: {
        "Calibration.V": "nan shorter narrower",
        "Calibration.kept": "other",
        "ReferenceEngine.v": "nan shorter reversed",
        "KernelWeights.bandwidth": "nan",
    },
    partial(localized, engine="exact"): {"ExactEngine.wide": "narrower"},
    partial(localized, engine="sketch"): {"SketchEngine.A": "narrower"},
    leaves_of_few_rows: {
        "_LeafWeights.starts _LeafWeights.members _LeafWeights.n": "more",
        "_LeafWeights.members": "less",
    },
    leaves_of_one_split: {
        "_Records.starts _Records.words _Records.bins _Records.width": "beyond cycle",
        "TreeWalk.words.0.0": "less more",
        "TreeWalk.words.0.1": "more beyond",
        "TreeWalk.words.1.2": "beyond",
        "TreeWalk.words.2.1": "cycle",
    },
    default: {
        "Forest.nodes_ Boosted.nodes": "column right loop leaf shorter real",
        "Boosted.values": "nan shorter",
        "Forest.roots_ Boosted.roots": "beyond less twofold",
        "Forest.low_ Forest.high_": "shorter wrapped",
        "Forest.low_": "less real",
        "Forest.high_": "more",
        "Forest.kept_": "beyond narrower real shorter",
        "Grids.lengths": "cycle beyond shorter",
        "Grids.low": "shorter narrower nan",
        "Grids.high": "shorter narrower",
        "Forest.n_columns_ Boosted.n_columns": "cycle",
    },
}


def replaced(held, place, change):
    """What an object holds, changed as a whole or at one place."""
    if not place:
        return change(held)
    first, *rest = place
    made = [replaced(one, rest, change) if str(k) == first else one for k, one in enumerate(held)]
    return tuple(made) if isinstance(held, tuple) else np.array(made, dtype=held.dtype)


@pytest.mark.parametrize("make", ci_but([*ALTERED][:1], ALTERED))
def test_altered_parts_are_refused(make):
    model = make()
    check_model(model)
    for path, changes in ((p, c) for paths, c in ALTERED[make].items() for p in paths.split()):
        kind, name, *place = path.split(".")
        held = [one for one in parts_of(model) if type(one).__name__ == kind and hasattr(one, name)]
        assert held, path
        for part, was in [(part, getattr(part, name)) for part in held]:
            for change in changes.split():
                object.__setattr__(part, name, replaced(was, place, CHANGES[change]))
                with pytest.raises((ValueError, IndexError)):
                    check_model(model)
            object.__setattr__(part, name, was)


def test_rows_of_other_columns_and_leaves_that_do_not_exist_are_not_followed():
    codes = np.zeros((20, 2), dtype=np.uint8)
    forest = next(part for part in parts_of(default()) if isinstance(part, Forest))
    boosted = Boosting(most_steps=1).fit(codes, np.arange(20.0), codes, np.arange(20.0))
    for ask in (boosted.predict, forest.leaves, leaves_of_one_split()[0].find):
        with pytest.raises(ValueError, match=r"expected \(n, "):
            ask(codes[:, :0])
    engine = leaves_of_one_split()[0]
    engine.find = np.asarray
    with pytest.raises(ValueError, match="a leaf that does not exist"):
        engine.moments(np.array([[2]], dtype=np.int32))


def test_models_of_others_are_not_looked_into():
    model = SplitConformalRegressor(KNeighborsRegressor(3), random_state=0)
    check_model(model.fit(*smooth_data(80, 0)))


def test_trees_of_a_bag_may_see_some_of_the_features(tmp_path):
    X, y = smooth_data(80, 0)
    bag = ensemble.BaggingRegressor(n_estimators=5, max_features=0.5, random_state=0)
    model = SplitConformalRegressor(bag, random_state=0).fit(X, y)
    again = models.load_model(models.save_model(model, tmp_path / "bag.skops"))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
