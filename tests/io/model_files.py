"""Model files as somebody else would write them, and the sentences that refuse them."""

import io
import json
import zipfile

import pytest

from localconformal.io.models import ModelFileError, load_model


def rewritten(data, change):
    """The archive with its files passed through ``change(name, content)``, check sums right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return out.getvalue()


def refusal(folder, data):
    path = folder / "model.skops"
    path.write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    said = str(caught.value)
    assert said.endswith(".")
    assert said.isprintable()
    assert len(said) < 800
    return said


def nodes(schema):
    if isinstance(schema, dict):
        if "__loader__" in schema:
            yield schema
        for entry in schema.values():
            yield from nodes(entry)
    elif isinstance(schema, list):
        for entry in schema:
            yield from nodes(entry)


def with_estimator(data, made):

    def change(name, content):
        if name != "schema.json":
            return content
        schema = json.loads(content)
        for one in list(nodes(schema)):
            if isinstance(one.get("content"), dict) and "estimator" in one["content"]:
                one["content"]["estimator"] = made
        return json.dumps(schema)

    return rewritten(data, change)


def node(loader, name, **more):
    module, _, kind = name.rpartition(".")
    return {"__class__": kind, "__module__": module, "__loader__": loader, **more}
