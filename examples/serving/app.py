"""A model file as a service: predictions, intervals, explanations, and coverage monitoring.

    export MODEL=homes/model.skops LABELS=labels.jsonl
    uvicorn --app-dir examples/serving --factory app:make_app

POST /predict predicts rows; POST /labels takes rows whose value is now known, and responds when
they are on disk; GET /health returns the state as JSON, and GET / as a page. Requests are checked
against the columns of the model, which GET /openapi.json describes. For Linux and macOS, where
workers share the file of labels with `flock`.
"""

import fcntl
import json
import os
from contextlib import contextmanager
from hashlib import sha256
from html import escape
from pathlib import Path

import numpy as np
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, Field, FiniteFloat, create_model

from localconformal import CoverageMonitor, __version__
from localconformal.io import load_model

#: Kind of a column -> what a value may be in JSON; null is a missing value.
TYPES = {"numbers": float, "flags": bool | float | str, "times": str | int}
TYPES["labels"] = str | bool | int | float
MOST_ROWS = 10_000


class Labels:
    """Rows whose value became known, in a file that is the whole state.

    The first line names the model, and each later one is a request: {"id", "rows", "y"}. Reading
    and writing need the lock of the file, and first process what others have added. So all workers
    report the same state, a restarted one knows what was acknowledged before, and a request that is
    sent again because no response came counts once.
    """

    def __init__(self, path, model, digest):
        self.path, self.model, self.header = Path(path), model, {"model": digest}
        self.monitor = CoverageMonitor(model.regressor, random_state=0)
        self._forget()
        self.state()

    def state(self):
        """The monitor's report on all rows so far."""
        with self._turn():
            return self._state()

    def add(self, name, rows, y):
        """Store a request, unless its id is known; return the monitor's report."""
        entry = {"id": name, "rows": rows, "y": y}
        with self._turn() as file:
            is_new = name not in self._known
            if not is_new and self._known[name] != content(entry):
                raise ValueError(f"id {name!r} was used for other labels; choose a new id.")
            if is_new:
                # All rows are accepted, or none: a refused request is not written.
                self._take_in([entry])
                self._append(file, entry)
            return {"counted": is_new, **self._state()}

    @contextmanager
    def _turn(self):
        """The file, locked against other threads and processes; new entries are processed."""
        with self.path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(self._read)
            found = file.read()
            whole = found[: found.rfind(b"\n") + 1]
            if whole != found:
                # From a worker that was killed while writing, before it acknowledged anything.
                file.truncate(self._read + len(whole))
            entries = [json.loads(line) for line in whole.splitlines()]
            if self._read == 0:
                if not entries:
                    self._append(file, self.header)
                elif entries.pop(0) != self.header:
                    said = f"{self.path} has the labels of another model"
                    raise ValueError(f"{said}; start with another file of labels.")
            self._take_in(entries)
            self._read += len(whole)
            yield file

    def _append(self, file, entry):
        """Write a line, and return when it is on disk; without space, nothing changes."""
        line = json.dumps(entry).encode() + b"\n"
        try:
            if file.write(line) != len(line):
                raise OSError(f"{self.path} has no space for {len(line)} bytes.")
            os.fsync(file.fileno())
            self._read += len(line)
        except OSError:
            file.truncate(self._read)
            self._forget()
            raise

    def _take_in(self, entries):
        if entries:
            X, beside, _ = self.model.read([row for entry in entries for row in entry["rows"]])
            self.monitor.update(X, np.concatenate([entry["y"] for entry in entries]), **beside)
            self._known |= {entry["id"]: content(entry) for entry in entries}

    def _forget(self):
        """Start over: the file is read again from its beginning."""
        self._read, self._known = 0, {}
        self.monitor.reset()

    def _state(self):
        so_far, alarm = self.monitor.coverage_, self.monitor.alarm_
        known = {"coverage": so_far.coverage, "lower": so_far.lower, "upper": so_far.upper}
        return {
            "labels": so_far.n,
            "target": self.monitor.confidence_level,
            **(known if so_far.n else dict.fromkeys(known)),
            # Among all rows of the file of labels, from 1.
            "alarm_row": alarm and alarm.row,
            "summary": self.monitor.summary(),
        }


def content(entry):
    """A digest of rows and labels: a request that is sent again has the same."""
    return sha256(json.dumps([entry["rows"], entry["y"]]).encode()).hexdigest()


def request_types(model):
    """Types of the requests for predictions and labels, from the columns of the model."""
    columns = {
        # Any text may be the name of a column, but not of an attribute.
        f"column_{place}": (TYPES[kind] | None, Field(alias=name))
        for place, (name, kind) in enumerate(model.schema.items())
    }
    row = create_model("Row", **columns)

    class Strict(BaseModel, extra="forbid"):
        """A misspelled field is refused."""

    class Question(Strict):
        rows: list[row] = Field(min_length=1, max_length=MOST_ROWS)
        confidence_level: float | list[float] = Field(default=[])
        explain: bool = False

    class Told(Strict):
        id: str = Field(max_length=200)
        rows: list[row] = Field(min_length=1, max_length=MOST_ROWS)
        y: list[FiniteFloat]

    return Question, Told


def records(frame):
    """Rows of a frame of numbers as dicts; JSON has no infinity, so it becomes null."""
    return frame.astype(object).where(np.isfinite(frame), None).to_dict("records")


def notes_on(frame):
    """A note if there are intervals that are infinite at both ends."""
    bounds = frame.filter(regex="^(lower|upper)")
    count = int((~np.isfinite(bounds)).all(axis=1).sum())
    said = f"{count} of {len(frame)} rows have infinite intervals: the model was calibrated on too "
    return [said + "few rows for this confidence level."] if count else []


def read_model(path):
    """The table model of a file."""
    if not path:
        raise ValueError("MODEL is not set; set it to a file that `localconformal run` wrote.")
    model = load_model(path)
    if not hasattr(model, "schema"):
        said = f"{path} holds a {type(model).__name__}; expected the model of a table, which knows "
        raise ValueError(said + "its columns: `localconformal run`, or fit_table_model, makes one.")
    return model


def make_app(model_path=None, labels_path=None):
    """The service of one model file; paths default to the environment variables."""
    model_path = model_path or os.environ.get("MODEL")
    model, model_path = read_model(model_path), Path(model_path)
    digest = sha256(model_path.read_bytes()).hexdigest()
    labels = Labels(labels_path or os.environ.get("LABELS", "labels.jsonl"), model, digest)
    Question, Told = request_types(model)
    app = FastAPI(title=f"Intervals of {model.target}", version=__version__)

    @app.post("/predict")
    def predict(question: Question):
        rows = [row.model_dump(by_alias=True) for row in question.rows]
        X, beside, notes = model.read(rows)
        levels = np.atleast_1d(question.confidence_level).tolist()
        frame = model.predict_prepared(X, beside, levels)
        answer = {"rows": records(frame), "notes": [*notes, *notes_on(frame)]}
        if question.explain:
            # Of the first level, where there are several.
            level = levels[0] if levels else None
            answer["width"] = records(model.explain_width(rows, confidence_level=level))
        return JSONResponse(answer)

    @app.post("/labels")
    def add_labels(told: Told):
        rows = [row.model_dump(by_alias=True) for row in told.rows]
        return JSONResponse(labels.add(told.id, rows, told.y))

    @app.get("/health")
    def health():
        about = {"status": "ok", "worker": os.getpid(), "model": digest, "columns": model.schema}
        return JSONResponse({**about, **labels.state()})

    @app.get("/", response_class=HTMLResponse)
    def page():
        promise = (str(model.regressor.guarantee_), labels.state()["summary"], f"Model {digest}.")
        said = "".join(f"<p>{escape(sentence)}</p>" for sentence in promise)
        return (
            f"<!doctype html><title>{escape(app.title)}</title><h1>{escape(app.title)}</h1>{said}"
        )

    @app.exception_handler(RequestValidationError)
    def misfit(request, error):
        # Without the input, which may be large and private.
        kept = [{name: one[name] for name in ("loc", "msg", "type")} for one in error.errors()]
        return JSONResponse({"detail": kept}, status_code=422)

    @app.exception_handler(ValueError)
    def refuse(request, error):
        return JSONResponse({"detail": str(error)}, status_code=422)

    @app.exception_handler(OSError)
    def unwritten(request, error):
        return JSONResponse({"detail": f"not stored, send it again: {error}"}, status_code=503)

    return app
