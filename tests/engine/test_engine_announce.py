"""A word on the terminal while the compiler works, and silence otherwise."""

import io
import sys
import time

import pytest

from localconformal.engine import announce


class Stream(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.isatty = lambda: terminal


@pytest.mark.parametrize(
    ("terminal", "seconds", "said"), [(True, 0.3, True), (True, 0.0, False), (False, 0.3, False)]
)
def test_only_a_long_wait_on_a_terminal_is_explained(terminal, seconds, said, monkeypatch):
    stream = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(announce, "PATIENCE", 0.1)
    with announce.compiling():
        time.sleep(seconds)
    assert ("compiling" in stream.getvalue()) == said


def test_an_error_within_is_not_swallowed(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Stream(True))
    with pytest.raises(ZeroDivisionError), announce.compiling():
        raise ZeroDivisionError
