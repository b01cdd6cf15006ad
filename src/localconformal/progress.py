"""Progress: lines for a log, or one line that is updated on a terminal or in a notebook.

Stages are logged by the logger ``localconformal`` at level INFO, and go nowhere unless a program
enables it. If none does, and standard error is a terminal or the program a notebook, one line there
shows the running stages and the seconds since the first began; it disappears when all are over.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from threading import Event, Lock, Thread
from typing import Any

from localconformal.text import UNSEEN

logger = logging.getLogger("localconformal")
logger.addHandler(logging.NullHandler())

#: Seconds between two updates of the line; anything shorter is not shown.
PAUSE = 0.2
CLEAR = "\r\x1b[K"


def is_seen() -> bool:
    """Whether someone is watching: standard error is a terminal, or this is a notebook."""
    return (sys.stderr is not None and sys.stderr.isatty()) or _in_notebook()


def _in_notebook() -> bool:
    """Whether the code runs in a Jupyter kernel; IPython is not imported to find out."""
    known = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(known, "kernel")


def _writer() -> Callable[[str], None] | None:
    """A function that replaces the text of the line, or None if nobody is watching.

    Only the main process has a line, and only if the stages are not logged.
    """
    if multiprocessing.parent_process() is not None or logger.isEnabledFor(logging.INFO):
        return None
    if _in_notebook():
        return _in_cell()
    if not is_seen() or os.environ.get("TERM") == "dumb":
        return None
    stream = sys.stderr

    def write(text: str) -> None:
        stream.write(f"{CLEAR}{text}\r" if text else CLEAR)
        stream.flush()

    return write


def _in_cell() -> Callable[[str], None]:
    """A line below the cell of a notebook."""
    # Already loaded in a notebook; not a dependency elsewhere.
    display = sys.modules["IPython.display"].display
    handle: list[Any] = []

    def write(text: str) -> None:
        content = {"text/plain": text}
        if handle:
            handle[0].update(content, raw=True)
        else:
            handle.append(display(content, raw=True, display_id=True))

    return write


class _Stage:
    """Something that takes time, and its current step."""

    def __init__(self, name: str, total: int | None) -> None:
        self.name, self.total = name, total
        self.step, self.begun, self.start = "", 0, time.perf_counter()

    def begin(self, step: str) -> None:
        self.step, self.begun = step, self.begun + 1
        logger.info("%s", self)

    def __str__(self) -> str:
        if not self.step:
            return self.name
        count = f"{self.begun}/{self.total}" if self.total else str(self.begun)
        return f"{self.name} {count}: {self.step}" if self.name else f"{count} {self.step}"


class _Line:
    """The running stages, on a line that a thread keeps rewriting."""

    def __init__(self) -> None:
        self.lock, self.over = Lock(), Event()
        self.stages: list[_Stage] = []
        self.thread: Thread | None = None

    def enter(self, stage: _Stage) -> None:
        with self.lock:
            self.stages.append(stage)
            if len(self.stages) == 1 and (write := _writer()) is not None:
                self.over = Event()
                self.thread = Thread(target=self.show, args=(self.over, write), daemon=True)
                self.thread.start()

    def leave(self, stage: _Stage) -> None:
        with self.lock:
            self.stages = [other for other in self.stages if other is not stage]
            ended, self.thread = (None, self.thread) if self.stages else (self.thread, None)
        if ended is not None:
            self.over.set()
            ended.join()

    def show(self, over: Event, write: Callable[[str], None]) -> None:
        looks, shown = cycle("|/-\\"), False
        while not over.wait(PAUSE):
            write(f"{next(looks)} {self.text()}")
            shown = True
        if shown:
            write("")

    def text(self) -> str:
        with self.lock:
            stages = list(self.stages)
        begun = min((stage.start for stage in stages), default=time.perf_counter())
        words = " > ".join(filter(None, map(str, stages)))
        text = f"{time.perf_counter() - begun:.0f} s: {words}"
        return " ".join(UNSEEN.sub(" ", text).split())[: shutil.get_terminal_size().columns - 3]


_line = _Line()


def _forget() -> None:
    """A forked child has its own stages, and no thread that holds the lock."""
    global _line
    _line = _Line()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def stage(name: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Show what is being done while it runs; call the value with the name of each step.

    The name is empty if the steps, of which there are ``total``, say enough.

    Examples
    --------
    >>> with stage("choose a law", 2) as step:
    ...     step("forest")
    ...     step("kernel")
    """
    under_way, line = _Stage(name, total), _line
    if name:
        logger.info("%s", name)
    line.enter(under_way)
    try:
        yield under_way.begin
    finally:
        line.leave(under_way)
        if name:
            logger.info("%s: %.1f s", name, time.perf_counter() - under_way.start)
