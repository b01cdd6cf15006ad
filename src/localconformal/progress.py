"""What is being done: lines for a log, and one line that moves on a terminal.

Stages are logged by the logger ``localconformal`` at level INFO, and go nowhere unless a program
asks for them. Where it does not, and standard error is a terminal, the stages under way stand there
on one line, with the seconds since the first began; the line is gone when all are over.
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
from typing import TextIO

from localconformal.text import UNSEEN

logger = logging.getLogger("localconformal")
logger.addHandler(logging.NullHandler())

#: Seconds between two looks of the line; what is over sooner is not shown.
PAUSE = 0.2
CLEAR = "\r\x1b[K"


class _Stage:
    """Something that takes its time, and the step of it that has begun."""

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
    """The stages under way, on a line that a thread writes again and again."""

    def __init__(self) -> None:
        self.lock, self.over = Lock(), Event()
        self.stages: list[_Stage] = []
        self.thread: Thread | None = None

    def enter(self, stage: _Stage) -> None:
        with self.lock:
            self.stages.append(stage)
            if len(self.stages) == 1 and self.is_shown():
                self.over = Event()
                self.thread = Thread(target=self.show, args=(self.over, sys.stderr), daemon=True)
                self.thread.start()

    def leave(self, stage: _Stage) -> None:
        with self.lock:
            self.stages = [other for other in self.stages if other is not stage]
            ended, self.thread = (None, self.thread) if self.stages else (self.thread, None)
        if ended is not None:
            self.over.set()
            ended.join()

    def is_shown(self) -> bool:
        """On a terminal of the first process, unless the same is logged."""
        return (
            sys.stderr is not None
            and sys.stderr.isatty()
            and os.environ.get("TERM") != "dumb"
            and multiprocessing.parent_process() is None
            and not logger.isEnabledFor(logging.INFO)
        )

    def show(self, over: Event, stream: TextIO) -> None:
        looks, shown = cycle("|/-\\"), False
        while not over.wait(PAUSE):
            stream.write(f"{CLEAR}{next(looks)} {self.text()}\r")
            stream.flush()
            shown = True
        if shown:
            stream.write(CLEAR)
            stream.flush()

    def text(self) -> str:
        with self.lock:
            stages = list(self.stages)
        begun = min((stage.start for stage in stages), default=time.perf_counter())
        words = " > ".join(filter(None, map(str, stages)))
        text = f"{time.perf_counter() - begun:.0f} s: {words}"
        return " ".join(UNSEEN.sub(" ", text).split())[: shutil.get_terminal_size().columns - 3]


_line = _Line()


def _forget() -> None:
    """A child of this process has stages of its own, and no thread that holds the lock."""
    global _line
    _line = _Line()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def stage(name: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Say what is being done while it is; the value is to be called with each step begun.

    The name is empty where the steps, of which there are ``total``, say it all.

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
