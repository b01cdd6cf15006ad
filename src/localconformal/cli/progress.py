"""Progress on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def steps(total: int) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each step as it begins; the bar goes when all is done.

    On standard error, so that the output of a command stays clean.
    """
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=total)
        begun = 0

        def begin(name: str) -> None:
            nonlocal begun
            progress.update(task, description=name, completed=begun)
            begun += 1

        yield begin
