"""Crafted files that would have something called while they are read; a marker file would tell."""

import io
import json
import zipfile

import pytest
import skops
import skops.io
from lightgbm import LGBMRegressor

from localconformal import SplitConformalRegressor
from localconformal.io.checks import check_nodes
from localconformal.io.models import (
    DIGEST,
    FOREIGN_TYPES,
    ModelFileError,
    is_allowed,
    load_model,
    save_model,
    sealed,
)
from registry import smooth_data


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model file with a booster of LightGBM in it, which can write files."""
    X, y = smooth_data(120, 0)
    base = LGBMRegressor(n_estimators=2, verbose=-1)
    model = SplitConformalRegressor(base, random_state=0).fit(X, y)
    return save_model(model, tmp_path_factory.mktemp("saved") / "model.skops")


def nodes(schema):
    """Every node of a schema."""
    if isinstance(schema, dict):
        if "__loader__" in schema:
            yield schema
        for entry in schema.values():
            yield from nodes(entry)
    elif isinstance(schema, list):
        for entry in schema:
            yield from nodes(entry)


def node(loader, name, **more):
    module, _, kind = name.rpartition(".")
    return {"__class__": kind, "__module__": module, "__loader__": loader, **more}


def text(value):
    return node("JsonNode", "builtins.str", content=json.dumps(value), is_json=True)


def listed(*content, kind="list"):
    return node(f"{kind.title()}Node", f"builtins.{kind}", content=list(content))


def dict_of(key_type, key):
    """A dict whose one key is made by a call of ``key_type``."""
    return node("DictNode", "builtins.dict", key_types=listed(key_type), content={key: text(None)})


def crafted(saved, make):
    """The file with ``make(booster node)`` among the booster's own parameters; the digest fits."""
    made = io.BytesIO()
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                found = [one for one in nodes(schema) if one["__class__"] == "Booster"]
                within = found[0]["content"]["content"]
                copy = json.loads(json.dumps(found[0]).replace('"__id__"', '"_"'))
                within["params"] = make(copy)
                content = json.dumps(schema)
            if name != DIGEST:
                new.writestr(name, content)
    return sealed(made.getvalue())


def write_by_method(marker):
    """What skops 0.11 took: it looked at the type of a method's object, not at the method."""
    return lambda booster: dict_of(
        node(
            "MethodNode",
            "lightgbm.basic.Booster",
            content={"obj": booster, "func": "save_model"},
        ),
        str(marker),
    )


def write_by_alias(marker):
    """A key that says it is a text, with the id of a method."""

    def make(booster):
        method = write_by_method(marker)(booster)["key_types"]["content"][0]
        harmless = node("TypeNode", "builtins.str", __id__=7)
        return listed({**method, "__id__": 7}, dict_of(harmless, str(marker)))

    return make


def read_by_constructor(marker):
    """A booster made of a file that the model file names."""
    return lambda booster: node(
        "ConstructorFromReduceNode",
        "lightgbm.basic.Booster",
        content=listed(text(None), text(None), text(str(marker)), kind="tuple"),
    )


def read_by_partial(marker):
    """The same, put off until a key is made."""
    arguments = {
        "func": node("TypeNode", "lightgbm.basic.Booster"),
        "args": listed(text(None), text(None), text(str(marker)), kind="tuple"),
        "kwds": node("DictNode", "builtins.dict", key_types=listed(), content={}),
        "namespace": text(None),
    }
    partial = node("PartialNode", "functools.partial", content=arguments)
    return lambda booster: dict_of(partial, "key")


def call_by_key(marker):
    """A key that is made by one of our own objects."""
    return lambda booster: dict_of(
        node("TypeNode", "localconformal.calibration.SideRule"), str(marker)
    )


CRAFTED = (write_by_method, write_by_alias, read_by_constructor, read_by_partial, call_by_key)


@pytest.mark.parametrize("craft", CRAFTED, ids=lambda craft: craft.__name__)
def test_nothing_that_a_file_names_is_called(tmp_path, saved, craft, monkeypatch):
    marker = tmp_path / "marker"
    data = crafted(saved, craft(marker))
    path = tmp_path / "model.skops"
    path.write_bytes(data)
    monkeypatch.setattr(skops.io, "loads", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ModelFileError, match=r"was altered|names lightgbm") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    assert not marker.exists()
    # Whatever the installed skops would say.
    with pytest.raises(ValueError, match=r"would call something|same id|unknown function|a call"):
        check_nodes(data)


def test_a_whole_file_has_nothing_called(saved):
    check_nodes(saved.read_bytes())


def test_an_old_skops_is_refused_before_it_sees_a_file(tmp_path, saved, monkeypatch):
    monkeypatch.setattr(skops, "__version__", "0.11.0")
    for name in ("loads", "dumps", "get_untrusted_types"):
        monkeypatch.setattr(skops.io, name, lambda *_, **__: pytest.fail("it was asked"))
    calls = (
        lambda: load_model(saved),
        lambda: save_model(SplitConformalRegressor(), tmp_path / "model.skops"),
    )
    for call in calls:
        with pytest.raises(ModelFileError, match=r"skops 0\.11\.0 is installed") as caught:
            call()
        assert "pip install 'skops>=0.12'" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "distributed.estimator.CalibrationRows",
        "distributed.graph.Call",
        "distributed.graph.Step",
        "distributed.parquet.Piece",
        "io.models.ModelFileError",
        "workflow.large.Prepared",
        "workflow.predicting.FilePrediction",
        "workflow.predicting_folder.FolderPrediction",
        "workflow.running.Run",
    ],
)
def test_what_calls_reads_or_writes_is_on_no_list(name):
    assert not is_allowed(f"localconformal.{name}")


def test_functions_on_the_list_take_arrays_alone():
    functions = {name for name in FOREIGN_TYPES if name.rpartition(".")[2].islower()}
    assert functions == {
        "functools.partial",
        "numpy.asarray",
        "numpy.dtype",
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.utils.validation.check_array",
    }
