"""What is being done is logged, and moves on a terminal, and not where nobody looks."""

import io
import logging
import sys
from threading import Event

import numpy as np
from sklearn.linear_model import LinearRegression

from localconformal import SplitConformalRegressor, progress

PATIENCE = 30


class Terminal(io.StringIO):
    """A stream that remembers what was written, and says when a line has moved often enough."""

    def __init__(self, terminal=True, enough=3):
        super().__init__()
        self.isatty = lambda: terminal
        self.lines, self.enough, self.moved = [], enough, Event()

    def write(self, text):
        self.lines.append(text)
        if len(self.lines) >= self.enough:
            self.moved.set()
        return len(text)


def watched(monkeypatch):
    """A terminal as standard error. No fixture: pytest has its own when the test begins."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PAUSE", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_nothing_is_written_where_nobody_looks(monkeypatch, caplog):
    terminal = watched(monkeypatch)

    def written():
        before = len(terminal.lines)
        with progress.stage("fit"):
            assert progress._line.thread is None
        return len(terminal.lines) - before

    with caplog.at_level(logging.INFO, "localconformal"):
        assert written() == 0
    for stream in (None, Terminal(terminal=False)):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            assert written() == 0
    monkeypatch.setenv("TERM", "dumb")
    assert written() == 0


def test_a_line_is_no_longer_than_the_terminal_and_obeys_nothing(monkeypatch):
    terminal = watched(monkeypatch)
    monkeypatch.setenv("COLUMNS", "40")
    with progress.stage("a\x1b[31m\n" * 100):
        assert terminal.moved.wait(PATIENCE)
    shown = [line.removeprefix(progress.CLEAR).removesuffix("\r") for line in terminal.lines[:-1]]
    assert all(len(line) < 40 and line.isprintable() for line in shown)


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
