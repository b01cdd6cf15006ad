"""Model files over versions, with networks, damaged at random, and crafted on purpose."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from localconformal import KernelLaw, SLCPRegressor, SplitConformalRegressor
from localconformal.io.checks import check_numbers
from localconformal.io.models import (
    DIGEST,
    FORMAT,
    STAMP,
    ModelFileError,
    is_allowed,
    load_model,
    model_bytes,
    model_types,
    own_stamp,
    read_stamp,
    save_model,
    sealed,
)
from registry import smooth_data

pytest.importorskip("benchmarks.alterations")
from benchmarks.alterations import HARMLESS, CodeWatch, answers, members, packed, run, small_model

STORED = Path(__file__).parent / "models"


def crafted(data, change):
    """The file with entries passed through ``change(name, content)``, and a digest that fits."""
    kept = [(name, content) for name, content in members(data) if name != DIGEST]
    return sealed(packed([(name, change(name, content)) for name, content in kept]))


def refusal(folder, data):
    """The sentence that refuses a file."""
    path = folder / "model.skops"
    path.write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    said = str(caught.value)
    assert said.endswith(".")
    assert said.isprintable()
    assert len(said) < 800
    return said


@pytest.fixture(scope="module")
def saved():
    return model_bytes(small_model()[0])


# ---- versions ---------------------------------------------------------------------------------


def test_a_file_tells_who_wrote_it(saved):
    assert read_stamp(saved) == own_stamp()
    assert own_stamp().versions.keys() == {"localconformal", "scikit-learn"}


def stored_rows():
    """The rows that the models in ``models/`` were asked about."""
    return np.column_stack([np.arange(60.0) % 7, np.arange(60.0) % 11])[:10]


@pytest.mark.filterwarnings("ignore:Trying to unpickle")
@pytest.mark.parametrize("number", range(FORMAT + 1))
def test_a_file_of_every_format_so_far_still_loads(number):
    """A change that breaks one of these needs a new number, and the old files a way to load."""
    path = STORED / f"format_{number}.skops"
    assert read_stamp(path.read_bytes()).format == number
    expected = json.loads((STORED / f"format_{number}.json").read_text())["intervals"]
    np.testing.assert_allclose(load_model(path).predict_interval(stored_rows()), expected)


def stamp_of(number, **versions):
    return json.dumps({"format": number, "versions": versions})


def with_stamp(data, text):
    return crafted(data, lambda name, content: text if name == STAMP else content)


@pytest.mark.parametrize("number", [FORMAT + 1, 10**30, -1])
def test_a_later_format_is_refused_with_the_version_to_install(tmp_path, saved, number):
    said = refusal(tmp_path, with_stamp(saved, stamp_of(number, localconformal="9.8.7")))
    assert "localconformal 9.8.7" in said
    assert "install a later version" in said


def test_a_later_format_is_told_before_all_else(tmp_path):
    """Whatever else has changed in it: here no entry is one that this version knows."""
    data = packed([(STAMP, stamp_of(FORMAT + 1, localconformal="9.8.7")), ("new", b"\x00")])
    assert "9.8.7" in refusal(tmp_path, data)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "1"}', '{"format": true}', '{"format": 1.5}', "\x00"]
)
def test_a_stamp_that_says_nothing_is_refused(tmp_path, saved, text):
    assert "was altered" in refusal(tmp_path, with_stamp(saved, text))


def test_what_other_versions_wrote_and_does_not_load_names_both(tmp_path, saved):
    def change(name, content):
        if name == STAMP:
            return stamp_of(FORMAT, **{"localconformal": "0.0.9", "scikit-learn": "0.1"})
        return content.replace(b"confidence_level", b"level_of_confidence")

    said = refusal(tmp_path, crafted(saved, change))
    assert "written by localconformal 0.0.9 with scikit-learn 0.1" in said
    assert str(own_stamp()) in said


def test_what_a_stamp_says_is_shown_and_not_obeyed(tmp_path, saved):
    text = stamp_of(FORMAT + 1, localconformal="\x1b[31m\n" + "x" * 10**5)
    assert "\\x1b[31m" in refusal(tmp_path, with_stamp(saved, text))


# ---- round trips ------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["exact", "sketch"])
def test_a_law_on_tensors_comes_back_with_the_same_bits(tmp_path, engine):
    pytest.importorskip("torch")
    X, y = smooth_data(300, 0)
    law = KernelLaw(device="cpu", engine=engine)
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, y)
    before = answers(model, X)
    again = load_model(save_model(model, tmp_path / "model.skops"))
    assert answers(again, X) == before
    assert all(is_allowed(name) for name in model_types(model_bytes(model)))


def test_a_network_is_refused_in_one_sentence_and_pickled_with_the_same_bits(tmp_path):
    torch = pytest.importorskip("torch")
    from localconformal.torch import TorchEmbedding

    X, y = smooth_data(200, 0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    law = KernelLaw(embedding=TorchEmbedding(network, "1"))
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, y)
    with pytest.raises(ModelFileError, match="it holds a network of PyTorch") as caught:
        save_model(model, tmp_path / "model.skops")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert answers(pickle.loads(pickle.dumps(model)), X) == answers(model, X)


def test_skops_itself_loads_a_file_with_the_list_of_its_types(saved):
    flat = skops.io.loads(saved, trusted=model_types(saved))
    assert type(flat.root).__name__ == "SLCPRegressor"


LOAD = """
import sys
from benchmarks.alterations import answers, small_model
from localconformal.io.models import load_model
sys.stdout.write(answers(load_model(sys.argv[1]), small_model()[1]).hex())
"""


@pytest.mark.ci
def test_another_process_gives_the_same_bits(tmp_path, saved):
    path = tmp_path / "model.skops"
    path.write_bytes(saved)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, check=True
    )
    model, X = small_model()
    assert done.stdout == answers(model, X).hex()


# ---- accidents --------------------------------------------------------------------------------


def test_altered_files_are_refused_or_answer_with_the_same_bits():
    """A small part of ``python -m benchmarks.alterations``, with other draws."""
    found, events = run(160, seed=1)
    ends = {end for counts in found.values() for end in counts}
    assert ends <= set(HARMLESS)
    assert sum(sum(counts.values()) for counts in found.values()) == 160
    assert not events


def test_the_watch_sees_code_that_runs():
    watch = CodeWatch()
    pickle.loads(pickle.dumps(LinearRegression))
    assert not watch.seen
    with watch:
        pickle.loads(pickle.dumps(LinearRegression))
        exec("1 + 1")
    assert watch.seen.keys() >= {"pickle.find_class", "exec"}


# ---- crafted files ----------------------------------------------------------------------------


def reached(schema, name):
    """Every place in a schema that holds the attribute."""
    if isinstance(schema, dict):
        if name in schema:
            yield schema
        for entry in schema.values():
            yield from reached(entry, name)
    elif isinstance(schema, list):
        for entry in schema:
            yield from reached(entry, name)


def with_estimator(data, node):
    """The model with another object in the place of its estimator."""

    def change(name, content):
        if name != "schema.json":
            return content
        schema = json.loads(content)
        for place in reached(schema, "estimator"):
            place["estimator"] = node
        return json.dumps(schema)

    return crafted(data, change)


def function_node(module, name):
    return {"__class__": name, "__module__": module, "__loader__": "FunctionNode", "__id__": 1}


LIST_OF_ONE = {
    "__class__": "list",
    "__module__": "builtins",
    "__loader__": "ListNode",
    "content": [
        {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": '"id"'}
    ],
}
#: Nodes of skops that would call or import something, each about another name.
NODES = {
    "os.system": function_node("os", "system"),
    "posix.system": {**function_node("posix", "system"), "__loader__": "TypeNode"},
    "builtins.exec": {**function_node("builtins", "exec"), "__loader__": "ObjectNode"},
    "subprocess.Popen": {
        "__class__": "Popen",
        "__module__": "subprocess",
        "__loader__": "ConstructorFromReduceNode",
        "content": LIST_OF_ONE,
    },
    "operator.methodcaller": {
        "__class__": "methodcaller",
        "__module__": "operator",
        "__loader__": "OperatorFuncNode",
        "attrs": LIST_OF_ONE,
    },
    "localconformal.workflow.predicting.FilePrediction.write": {
        "__class__": "FilePrediction",
        "__module__": "localconformal.workflow.predicting",
        "__loader__": "MethodNode",
        "content": {
            "func": "write",
            "obj": {
                "__class__": "FilePrediction",
                "__module__": "localconformal.workflow.predicting",
                "__loader__": "ObjectNode",
            },
        },
    },
    "localconformal.io.files.write_whole": function_node("localconformal.io.files", "write_whole"),
    "joblib.memory.Memory": {
        **function_node("joblib.memory", "Memory"),
        "__loader__": "ObjectNode",
    },
    "sklearn.utils._testing.delete_folder": function_node(
        "sklearn.utils._testing", "delete_folder"
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_a_type_outside_the_list_is_named_and_nothing_runs(tmp_path, saved, name):
    data = with_estimator(saved, NODES[name])
    # Modules of ours that a file names are loaded to look at the name.
    refusal(tmp_path, data)
    watch = CodeWatch()
    with watch:
        said = refusal(tmp_path, data)
    assert name in said
    assert not watch.seen


def test_a_loader_that_does_not_exist_and_endless_depth_are_refused(tmp_path, saved):
    refusal(tmp_path, with_estimator(saved, {**function_node("a", "b"), "__loader__": "NoNode"}))
    deep = "[" * 100_000 + "]" * 100_000
    refusal(tmp_path, crafted(saved, lambda n, old: deep if n == "schema.json" else old))


def test_a_long_name_of_a_type_is_cut_and_shown(tmp_path, saved):
    said = refusal(tmp_path, with_estimator(saved, function_node("\x1b[31m\n", "x" * 10**5)))
    assert "names" in said


def localized(n=200, **law):
    X, y = smooth_data(n, 0)
    return SLCPRegressor(LinearRegression(), law=KernelLaw(**law), random_state=0).fit(X, y)


def set_nan(model):
    model.calibration_.V[0] = np.nan


def cut_scores(model):
    object.__setattr__(model.calibration_, "V", model.calibration_.V[:-1])


def cut_cells(model):
    object.__setattr__(model.calibration_, "cells", model.calibration_.cells[:-1])


def one_side(model):
    object.__setattr__(model.calibration_, "V", model.calibration_.V[:, :1])


def engine_of(model):
    return model.calibration_.F.sided.laws[0].engine_


def nan_references(model):
    engine_of(model).v[3] = np.nan


def disorder(model):
    engine_of(model).v[:] = engine_of(model).v[::-1].copy()


def fewer_references(model):
    engine_of(model).v = engine_of(model).v[:-1]


def nan_bandwidth(model):
    object.__setattr__(engine_of(model).weigh, "bandwidth", float("nan"))


#: What is changed -> words of the sentence.
SPOILT = {
    set_nan: "V of Calibration holds NaN",
    cut_scores: "do not fit their rows",
    cut_cells: "do not fit their rows",
    one_side: "do not fit their rows",
    nan_references: "holds NaN",
    disorder: "not in order",
    fewer_references: "other reference rows than scores",
    nan_bandwidth: "bandwidth of",
}


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_state_that_does_not_fit_is_refused(tmp_path, spoil):
    model = localized()
    spoil(model)
    assert SPOILT[spoil] in refusal(tmp_path, model_bytes(model))


@pytest.mark.parametrize("engine", ["exact", "sketch"])
def test_engines_with_compiled_loops_have_all_that_these_read(engine):
    model = localized(engine=engine)
    check_numbers(model)
    found = engine_of(model)
    name = {"exact": "wide", "sketch": "A"}[engine]
    setattr(found, name, getattr(found, name)[..., :-1])
    with pytest.raises(ValueError, match="other reference rows than scores"):
        check_numbers(model)


def test_models_of_others_are_not_looked_into():
    X, y = smooth_data(80, 0)
    check_numbers(SplitConformalRegressor(KNeighborsRegressor(3), random_state=0).fit(X, y))
