"""Files that are no models, or not as they were written: one sentence, and nothing is executed."""

import io
import json
import pickle
import random
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import FunctionTransformer

from localconformal import SLCPRegressor, SplitConformalRegressor
from localconformal.io.models import (
    DIGEST,
    ModelFileError,
    load_model,
    model_bytes,
    reading_model,
    sealed,
)
from registry import light, smooth_data


@pytest.fixture(scope="module")
def saved():
    X, y = smooth_data(120, 0)
    return model_bytes(SplitConformalRegressor(RandomForestRegressor(3), random_state=0).fit(X, y))


def rewritten(data, change):
    """The archive with its files passed through ``change(name, content)``, check sums right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return out.getvalue()


def crafted(data, change):
    """The same with a digest that fits, as one who means to deceive would write it."""
    bare = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(bare, "w") as new:
        for name in old.namelist():
            if name != DIGEST:
                new.writestr(name, change(name, old.read(name)))
    return sealed(bare.getvalue())


def refuse(tmp_path, data, words):
    path = tmp_path / "model.skops"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=words) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


EXECUTED = []


class Tells:
    """Unpickling this would be noticed."""

    def __reduce__(self):
        return (EXECUTED.append, ("unpickled",))


class TestBadFiles:
    def test_a_missing_file(self, tmp_path):
        with pytest.raises(ModelFileError, match="does not exist"):
            load_model(tmp_path / "none.skops")

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
    def test_a_truncated_file(self, tmp_path, saved, share):
        refuse(tmp_path, saved[: int(share * len(saved))], "not a whole model file")

    def test_altered_bytes(self, tmp_path, saved):
        content = bytearray(saved)
        content[len(content) // 3] ^= 0xFF
        refuse(tmp_path, bytes(content), "was altered")

    def test_a_pickle_is_not_opened(self, tmp_path):
        refuse(tmp_path, pickle.dumps(Tells()), "not a whole model file")
        assert EXECUTED == []

    def test_a_pickle_inside_is_not_opened(self, tmp_path, saved):
        harm = io.BytesIO()
        np.save(harm, np.array([Tells()], dtype=object), allow_pickle=True)
        data = crafted(saved, lambda name, old: harm.getvalue() if name.endswith("npy") else old)
        refuse(tmp_path, data, "was altered")
        assert EXECUTED == []

    @pytest.mark.parametrize("name", ["os.system", "builtins.eval", "localconformal.io.files.Path"])
    def test_another_type_is_named_and_not_made(self, tmp_path, saved, name):
        module, _, attribute = name.rpartition(".")

        def change(part, old):
            if part != "schema.json":
                return old
            schema = json.loads(old)
            schema["content"]["content"]["estimator"] = {
                "__class__": attribute,
                "__module__": module,
                "__loader__": "FunctionNode",
                "__id__": 1,
            }
            return json.dumps(schema)

        refuse(tmp_path, crafted(saved, change), name)

    def test_the_list_beside_the_file_is_no_authority(self, tmp_path, saved):
        data = skops.io.dumps(FunctionTransformer(print))
        (tmp_path / "model.trusted.json").write_text(json.dumps({"trusted": ["builtins.print"]}))
        refuse(tmp_path, data, "builtins.print")

    def test_a_tree_that_leads_outside_itself(self, tmp_path):
        X, y = smooth_data(120, 0)
        for base, attribute, field in (
            (RandomForestRegressor(2), None, "left_child"),
            (HistGradientBoostingRegressor(max_iter=2), "nodes", "left"),
        ):
            model = SplitConformalRegressor(base, random_state=0).fit(X, y)
            inner = model.score_.model_
            if attribute is None:
                tree = inner.estimators_[0].tree_
                state = tree.__getstate__()
                state["nodes"][field][0] = 10**6
                tree.__setstate__(state)
            else:
                inner._predictors[0][0].nodes[field][0] = 10**6
            refuse(tmp_path, model_bytes(model), "outside itself")


@pytest.fixture(scope="module")
def localized():
    """A model file of many parts, and what its model predicts."""
    X, y = smooth_data(200, 0)
    model = light(SLCPRegressor).fit(X, y)
    return model_bytes(model), model.predict_interval(X[:20]), X[:20]


def reloaded(tmp_path, data):
    path = tmp_path / "model.skops"
    path.write_bytes(data)
    return path, load_model(path)


def with_schema(change):
    """A change of the schema alone."""
    return lambda name, old: change(json.loads(old)) if name == "schema.json" else old


def attribute_places(tree):
    """Every dict of attributes in a schema: what is under a "content" that is a dict."""
    if isinstance(tree, dict):
        if isinstance(tree.get("content"), dict):
            yield tree["content"]
        for entry in tree.values():
            yield from attribute_places(entry)
    elif isinstance(tree, list):
        for entry in tree:
            yield from attribute_places(entry)


def renaming(seed):
    """Rename one attribute, drawn at random from all that the schema has."""

    def change(schema):
        rng = random.Random(seed)
        place = rng.choice([found for found in attribute_places(schema) if found])
        name = rng.choice(sorted(place))
        place[f"{name}_x"] = place.pop(name)
        return json.dumps(schema)

    return with_schema(change)


def filling(value, kinds="iu"):
    """Every array of these kinds filled with a value."""

    def change(name, old):
        if not name.endswith("npy"):
            return old
        array = np.load(io.BytesIO(old))
        if array.dtype.kind in kinds:
            array = np.full_like(array, min(value, np.iinfo(array.dtype).max))
        out = io.BytesIO()
        np.save(out, array)
        return out.getvalue()

    return change


def predicted(tmp_path, data, X):
    """What ``localconformal predict`` does with the bytes of a model file."""
    path, model = reloaded(tmp_path, data)
    with reading_model(path):
        return model.predict_interval(X)


def told_or_equal(tmp_path, data, X, expected):
    """The file is refused in one sentence, or predicts what the model that was saved does."""
    try:
        found = predicted(tmp_path, data, X)
    except ModelFileError as error:
        said = str(error)
    else:
        said = ""
        np.testing.assert_array_equal(found, expected)
    assert "\n" not in said


class TestAlteredFiles:
    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_a_flipped_byte_is_refused_or_means_nothing(self, tmp_path, localized):
        data, expected, X = localized
        rng = np.random.default_rng(0)
        for place, bit in rng.integers([len(data), 8], size=(300, 2)):
            content = bytearray(data)
            content[place] ^= 1 << int(bit)
            told_or_equal(tmp_path, bytes(content), X, expected)

    @pytest.mark.parametrize("seed", range(10))
    def test_an_edited_schema_is_found_by_the_digest(self, tmp_path, localized, seed):
        refuse(tmp_path, rewritten(localized[0], renaming(seed)), "digest")

    def test_edited_arrays_are_found_by_the_digest(self, tmp_path, localized):
        refuse(tmp_path, rewritten(localized[0], filling(2**30)), "digest")

    def test_a_file_without_its_digest_is_refused(self, tmp_path, localized):
        bare = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(localized[0])) as old, zipfile.ZipFile(bare, "w") as new:
            for name in old.namelist():
                if name != DIGEST:
                    new.writestr(name, old.read(name))
        refuse(tmp_path, bare.getvalue(), "digest is missing")

    def test_two_entries_of_one_name_are_refused(self, tmp_path, saved):
        file = io.BytesIO(saved)
        with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("schema.json", "{}")
        refuse(tmp_path, file.getvalue(), "same name")

    def test_a_plain_model_of_skops_needs_no_digest(self, tmp_path):
        X, y = smooth_data(50, 0)
        model = LinearRegression().fit(X, y)
        _, again = reloaded(tmp_path, skops.io.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


class TestCraftedFiles:
    """The digest fits: what is left is that nothing is executed, and every error a sentence."""

    @pytest.mark.parametrize("seed", range(40))
    def test_a_renamed_attribute_ends_in_one_sentence(self, tmp_path, localized, seed):
        data, expected, X = localized
        told_or_equal(tmp_path, crafted(data, renaming(seed)), X, expected)
        assert EXECUTED == []

    def test_fields_and_parameters_are_those_of_the_class(self, tmp_path, localized):
        def change(schema):
            for place in attribute_places(schema):
                if "confidence_level" in place:
                    place["confidence"] = place.pop("confidence_level")
            return json.dumps(schema)

        refuse(tmp_path, crafted(localized[0], with_schema(change)), "lacks confidence_level")

    def test_indices_out_of_range_end_in_one_sentence(self, tmp_path):
        X, y = smooth_data(200, 0)
        base = RandomForestRegressor(3, random_state=0)
        model = SLCPRegressor(base, law="forest", reference="holdout", random_state=0).fit(X, y)
        data = crafted(model_bytes(model), filling(2**30))
        with pytest.raises(ModelFileError, match="was altered"):
            predicted(tmp_path, data, X)

    def test_errors_about_the_table_pass(self, tmp_path, localized):
        data, _, X = localized
        with pytest.raises(ValueError, match="features") as caught:
            predicted(tmp_path, data, X[:, :1])
        assert not isinstance(caught.value, ModelFileError)
