"""The service of examples/serving, as a process of its own that is asked over HTTP."""

import json
import os
import resource
import runpy
import signal
import threading
import time

import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from localconformal import CoverageMonitor, SplitConformalRegressor
from localconformal.io import save_model
from localconformal.tabular import fit_table_model
from registry import homes, optional

pytestmark = pytest.mark.ci

httpx = optional("httpx")
TestClient = optional("fastapi.testclient").TestClient
optional("uvicorn")
serving = optional("benchmarks.serving")
patient, service = serving.patient, serving.service


def sent(table):
    """Rows of a frame as JSON brings them."""
    return json.loads(table.drop(columns=["key", "price"]).to_json(orient="records"))


@pytest.fixture(scope="module")
def model():
    return fit_table_model(homes(), "price", method="split", model="linear")


@pytest.fixture(scope="module")
def model_file(model, tmp_path_factory):
    return save_model(model, tmp_path_factory.mktemp("model") / "model.skops")


@pytest.fixture(scope="module")
def labels_file(tmp_path_factory):
    return tmp_path_factory.mktemp("labels") / "labels.jsonl"


@pytest.fixture(scope="module")
def client(model_file, labels_file):
    with service(model_file, labels_file) as asked:
        yield asked


def test_answers_are_those_of_the_model(client, model):
    rows = sent(homes(30, seed=1))
    rows[3]["size"] = None
    for some, level in ((rows, []), (rows[:1], []), (rows, 0.5), (rows, [0.5, 0.9])):
        answer = client.post("/predict", json={"rows": some, "confidence_level": level})
        assert answer.status_code == 200, answer.text
        made = pd.DataFrame(answer.json()["rows"])
        pd.testing.assert_frame_equal(made, model.predict(some, level))
        assert answer.json()["notes"] == []
    unknown = client.post("/predict", json={"rows": [{**rows[0], "region": "moon"}]}).json()
    assert "'region' could not be found among the labels" in unknown["notes"][0]


@pytest.mark.parametrize(
    ("changes", "beside", "said"),
    [
        ({"size": "large"}, {}, "size"),
        ({"region": ["north"]}, {}, "region"),
        ({"sold": 3}, {}, "'sold' holds numbers; expected times"),
        ({}, {"confidence_level": 1.5}, "inside (0, 1)"),
        ({}, {"rows": []}, "at least 1 item"),
        ({}, {"rows": [{"size": 3}]}, "region"),
        ({}, {"level": 0.5}, "level"),
    ],
)
def test_a_request_that_does_not_fit_the_columns_is_refused_and_told_why(
    client, changes, beside, said
):
    (row,) = sent(homes(1, seed=1))
    answer = client.post("/predict", json={"rows": [{**row, **changes}], **beside})
    assert answer.status_code == 422
    assert said in answer.text
    assert '"input"' not in answer.text


def test_the_width_that_is_explained_is_that_of_the_interval(client):
    rows = sent(homes(3, seed=1))
    for level in ([], 0.5):
        question = {"rows": rows, "confidence_level": level, "explain": True}
        answer = client.post("/predict", json=question).json()
        for row, part in zip(answer["rows"], answer["width"], strict=True):
            assert part["width"] == pytest.approx(row["upper"] - row["lower"])


def test_an_infinite_interval_comes_with_a_note(client):
    question = {"rows": sent(homes(3, seed=1)), "confidence_level": 0.9999}
    answer = client.post("/predict", json=question).json()
    assert answer["rows"][0]["lower"] is None
    assert "3 of 3 rows have infinite intervals" in answer["notes"][0]


def test_a_service_that_cannot_start_says_why(make_app, tmp_path, monkeypatch):
    monkeypatch.delenv("MODEL", raising=False)
    with pytest.raises(ValueError, match="MODEL is not set"):
        make_app()
    X, y = homes()[["size"]].fillna(0.0), homes()["price"]
    path = save_model(SplitConformalRegressor(LinearRegression()).fit(X, y), tmp_path / "m.skops")
    with pytest.raises(ValueError, match="expected the model of a table"):
        make_app(path)


def test_the_description_names_the_columns_and_their_types(client, model):
    described = client.get("/openapi.json").json()["components"]["schemas"]["Row"]
    assert set(described["required"]) == set(model.schema)
    kinds = [one["type"] for one in described["properties"]["size"]["anyOf"]]
    assert kinds == ["number", "null"]


def test_a_page_and_a_document_tell_the_state(client, model):
    state = client.get("/health").json()
    assert state["status"] == "ok"
    assert state["columns"] == model.schema
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert state["summary"].replace("'", "&#x27;") in page.text


def coverage_of(model, entries):
    """What a monitor says of these rows, one request after the other."""
    monitor = CoverageMonitor(model.regressor, random_state=0)
    for entry in entries:
        X, beside, _ = model.read(entry["rows"])
        monitor.update(X, entry["y"], **beside)
    return monitor.summary()


def entries_of(labels):
    """Requests in the file, the last of which may be about to be written."""
    text = labels.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n")].splitlines()[1:]]


def told(name, n=5, seed=0):
    """A request with labels."""
    table = homes(n, seed=seed)
    return {"id": name, "rows": sent(table), "y": table["price"].tolist()}


def test_labels_count_once_and_refused_ones_are_not_kept(client, model, labels_file):
    for name, is_new in (("a", True), ("b", True), ("b", False), ("c", True)):
        answer = client.post("/labels", json=told(name, seed=ord(name)))
        assert answer.json()["counted"] == is_new
    kept = entries_of(labels_file)
    assert kept == [told(name, seed=ord(name)) for name in "abc"]
    state = client.get("/health").json()
    assert state["labels"] == answer.json()["labels"] == 15
    assert state["summary"] == coverage_of(model, kept)
    other = {**told("b", seed=7), "id": "a"}
    assert "used for other labels" in client.post("/labels", json=other).text
    for wrong in ({"y": [1.0]}, {"y": [None] * 5}, {"rows": [{}] * 5}):
        assert client.post("/labels", json={**told("d"), **wrong}).status_code == 422
    assert entries_of(labels_file) == kept
    assert client.get("/health").json()["summary"] == state["summary"]


def test_a_killed_worker_loses_no_label_that_was_acknowledged(model, model_file, tmp_path):
    labels, acknowledged = tmp_path / "labels.jsonl", []

    def tell(url, first):
        # A client of its own, which sends again what was not answered.
        with httpx.Client(base_url=url, timeout=60) as own:
            for number in range(first, first + 60):
                request = told(f"{number}", n=1, seed=number)
                assert patient(own.post, "/labels", json=request).status_code == 200
                acknowledged.append(request["id"])

    with service(model_file, labels, workers=2) as asked:
        url = str(asked.base_url)
        clients = [threading.Thread(target=tell, args=(url, 1000 * k)) for k in range(3)]
        for one in clients:
            one.start()
        for enough in (30, 90):
            while len(acknowledged) < enough and any(one.is_alive() for one in clients):
                time.sleep(0.01)
            # By another connection each time, so that either worker may answer.
            worker = patient(httpx.get, f"{url}/health", timeout=60).json()["worker"]
            before = set(acknowledged)
            os.kill(worker, signal.SIGKILL)
            assert before <= {entry["id"] for entry in entries_of(labels)}
        for one in clients:
            one.join()
    # The whole service was killed now, too; half a line is what a kill while writing leaves.
    with labels.open("ab") as file:
        file.write(b'{"id": "half')
    with service(model_file, labels) as asked:
        state = asked.get("/health").json()
        asked.post("/labels", json=told("after"))
    *kept, last = entries_of(labels)
    assert last["id"] == "after"
    assert sorted(entry["id"] for entry in kept) == sorted(acknowledged)
    assert len(acknowledged) == state["labels"] == 180
    assert state["summary"] == coverage_of(model, kept)


@pytest.fixture
def make_app():
    return runpy.run_path(str(serving.APP / "app.py"))["make_app"]


def test_labels_without_room_are_not_acknowledged_and_leave_all_as_it_was(
    make_app, model_file, tmp_path
):
    labels, limits = tmp_path / "labels.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    asked = TestClient(make_app(model_file, labels))
    assert asked.post("/labels", json=told("small")).status_code == 200
    size, state = labels.stat().st_size, asked.get("/health").json()
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
    try:
        answer = asked.post("/labels", json=told("large"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert answer.status_code == 503
    assert "send it again" in answer.text
    assert labels.stat().st_size == size
    assert asked.get("/health").json() == state
    assert asked.post("/labels", json=told("large")).json()["labels"] == 10


def test_the_labels_of_another_model_are_refused(make_app, model_file, tmp_path):
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"model": "another"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="has the labels of another model; start with another"):
        make_app(model_file, labels)


def test_widths_are_explained_by_columns(client, model):
    rows = sent(homes(3, seed=4))
    answer = client.post("/predict", json={"rows": rows, "explain": True}).json()
    for made, parts in zip(answer["rows"], answer["width"], strict=True):
        width = parts.pop("width")
        assert width == pytest.approx(made["upper"] - made["lower"])
        assert sum(parts.values()) == pytest.approx(width)
