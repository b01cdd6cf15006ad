"""What is being done is logged, and moves on a terminal, and nowhere else."""

import io
import logging
import sys

import numpy as np
from sklearn.linear_model import LinearRegression

from localconformal import SplitConformalRegressor, progress


class Terminal(io.StringIO):
    def __init__(self, terminal=True):
        super().__init__()
        self.isatty = lambda: terminal


def shown(monkeypatch, stream, **environment):
    """What a stage with steps writes. No fixture: pytest has its own stream when a test begins."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        for name, value in {"TERM": "xterm", "COLUMNS": "40", **environment}.items():
            patch.setenv(name, value)
        with progress.stage("fit", 2) as step:
            step("a\x1b[31m\n" * 100)
            step("end")
    return stream.getvalue() if stream else ""


def test_nothing_is_written_where_nobody_looks(monkeypatch, caplog):
    for stream in (None, Terminal(terminal=False)):
        assert shown(monkeypatch, stream) == ""
    assert shown(monkeypatch, Terminal(), TERM="dumb") == ""
    with caplog.at_level(logging.INFO, "localconformal"):
        assert shown(monkeypatch, Terminal()) == ""


def test_a_line_is_no_longer_than_the_terminal_obeys_nothing_and_goes(monkeypatch):
    first, *lines = shown(monkeypatch, Terminal()).split(progress.CLEAR)
    assert (first, lines[0], lines[2:]) == ("", "fit\r", ["fit 2/2: end\r", ""])
    assert len(lines[1]) == 40
    assert lines[1].removesuffix("\r").isprintable()


def test_fit_logs_its_stages_and_touches_no_other_logger(caplog):
    X = np.linspace(0, 1, 100)[:, None]
    handlers, level = list(logging.root.handlers), logging.root.level
    with caplog.at_level(logging.INFO, "localconformal"):
        SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, X[:, 0])
    said = [record.getMessage() for record in caplog.records if record.name == "localconformal"]
    assert "SplitConformalRegressor: train" in said
    assert "SplitConformalRegressor: calibrate" in said
    assert (list(logging.root.handlers), logging.root.level) == (handlers, level)
    assert any(isinstance(one, logging.NullHandler) for one in progress.logger.handlers)
