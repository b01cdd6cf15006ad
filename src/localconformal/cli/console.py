"""How a command speaks: results on standard output, all else on standard error.

How a command file is written
-----------------------------
One file a command, named as the command, with one function of that name; `cli/app.py` has it in
``COMMANDS``. The function is thin: it reads options, calls the library (``localconformal.workflow``
for work that only commands need) and shows what came back.

* Its signature is typer's: arguments as ``Annotated[type, typer.Option(help=...)]``. Its docstring
  is the page of help: one line on what it does, a blank line, then an example after "Example:".
  Lines that are to stay lines stand under a line with a lone ``\\b``.
* Heavy imports (scikit-learn, pandas, the library's estimators) stand inside the function, so that
  ``--help`` is quick and lists every command without loading them.
* Bad input is a ``TableError`` or another ``ValueError`` whose message is one sentence (or an
  ``OSError``): just let it pass. `answering`, which `cli/app.py` puts around every command, prints
  the sentence on standard error and ends with code 2; Ctrl-C ends with 130. Everything else is a
  mistake of ours and ends with a traceback and code 1. ``LOCALCONFORMAL_TRACEBACK=1`` shows where
  a sentence comes from.
* Files are made by ``write_whole`` (or ``write_together``) of `localconformal.io` at the very end,
  so that whatever happens before leaves nothing behind.
* ``as_json: Json = False`` is the option ``--json``. `show` then prints one JSON document and
  nothing else; without it, sentences, paths and rich tables.
* `steps` (a number of named steps) or `counting` (many rows) show progress, on a terminal only;
  ``verbose: Verbose = False`` with `log_lines` is the option for those who have none.

A command in full::

    def count(data: Data, as_json: Json = False) -> None:
        \"\"\"Count the rows of a table.

        \\b
        Example:  localconformal count homes.csv
        \"\"\"
        from localconformal.io.tables import read_table

        n = len(read_table(data))
        show({"rows": n}, [f"{n:,} rows"], as_json)
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from localconformal.progress import hidden, stage
from localconformal.workflow.messages import json_text, one_line, visible

#: Meaning of each exit code, as `localconformal --help` prints it.
EXIT_CODES = {
    0: "done",
    1: "a mistake in localconformal, or a missing package",
    2: "a file, an option or a value that cannot be used; nothing was written",
    4: "done, and all files written, but the result could not be printed",
    129: "hung up (SIGHUP); no file is half written",
    130: "interrupted (Ctrl-C); nothing was written",
    143: "terminated (SIGTERM); no file is half written",
}
BAD_INPUT, UNPRINTED, INTERRUPTED = 2, 4, 130
#: Where a command takes the name of a method; help pages load nothing, so the list is elsewhere.
METHOD_NAMES = "A name; a wrong one lists all"
#: Set to anything: errors of the user come with a traceback, to find where one comes from.
TRACEBACK = "LOCALCONFORMAL_TRACEBACK"

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Data = Annotated[Path, typer.Argument(help="A CSV or Parquet file.", show_default=False)]
Level = Annotated[
    list[float],
    typer.Option("--level", "-l", help="Share of rows to cover, inside (0, 1); repeatable."),
]
Cluster = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler, as tcp://host:8786.", show_default=False),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print each stage on standard error.")
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]


def answering(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with errors of the user as one sentence and exit codes as documented."""

    @functools.wraps(command)
    def answered(*args: Any, **options: Any) -> None:
        try:
            with one_line_warnings():
                command(*args, **options)
        except KeyboardInterrupt:
            complain("Interrupted; nothing was written.")
            raise typer.Exit(INTERRUPTED) from None
        except (ValueError, OSError) as error:
            if os.environ.get(TRACEBACK):
                raise
            complain(sentence(error))
            raise typer.Exit(BAD_INPUT) from error

    return answered


def sentence(error: Exception) -> str:
    """What an exception says, on one line."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return one_line(str(error)) or type(error).__name__


def complain(text: str) -> None:
    """A line on standard error."""
    typer.echo(visible(text), err=True)


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Warnings for users as sentences on standard error, each once, at the end; others never."""
    said: dict[str, None] = {}

    def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, UserWarning):
            said[one_line(str(message))] = None

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show_warning
        try:
            yield
        finally:
            for text in said:
                complain(f"Note: {text}")


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output; NaN and infinities as texts."""
    typer.echo(to_json(document))


def to_json(document: Any) -> str:
    """JSON with all digits; what JSON has no word for, as texts.

    Examples
    --------
    >>> print(to_json({"share": 0.5, "path": Path("a"), "width": float("inf")}))
    {
      "share": 0.5,
      "path": "a",
      "width": "Infinity"
    }
    """
    return json_text(sayable(document))


def sayable(value: Any) -> Any:
    """Numbers, texts, lists and dicts alone."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): sayable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [sayable(item) for item in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def print_result(*parts: Any) -> None:
    """Sentences, paths (``"Report: a/b.html"``) and rich tables, on standard output.

    Texts are printed as they are: no markup, no wrapping, so that a path can be copied; but what
    a terminal would obey is shown (`visible`). `prose` makes a text that is wrapped.
    """
    from rich.console import Console

    console = Console()
    for part in parts:
        if isinstance(part, str):
            console.print(visible(part), soft_wrap=True, highlight=False, markup=False)
        else:
            console.print(part)


def prose(text: str) -> Any:
    """A paragraph, to be wrapped at the width of the terminal."""
    from rich.text import Text

    return Text(visible(text))


def show(document: Mapping[str, Any], parts: Iterable[Any], as_json: bool) -> None:
    """The result: as one JSON document, or as sentences and tables.

    It comes after the files, so that output that leads nowhere is another error than theirs.
    """
    try:
        if as_json:
            print_json(document)
        else:
            print_result(*parts)
        sys.stdout.flush()
    except OSError as error:
        # Python would try the rest again at exit, and complain.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        complain(
            f"Cannot print the result ({error.strerror}); the command is done, and the files that "
            "it makes are written."
        )
        raise typer.Exit(UNPRINTED) from error


@contextmanager
def on_cluster(large: bool, address: str | None) -> Iterator[None]:
    """Work on rows out of memory runs on this cluster, or in the threads of this process."""
    if not large:
        yield
        return
    from localconformal.distributed.computing import connected

    with connected(address):
        yield


@contextmanager
def steps(total: int) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each step as it begins.

    They stand on a line of standard error with what the library does within them, on a terminal
    only, so that the output of a command stays clean.
    """
    with stage("", total) as begin:
        yield begin


@contextmanager
def log_lines(wanted: bool) -> Iterator[None]:
    """What the library logs, line by line on standard error, if wanted."""
    if not wanted:
        yield
        return
    logger, handler = logging.getLogger("localconformal"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%H:%M:%S"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


@contextmanager
def counting(name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A function to call with how many more are done; with the time left where a total is known."""
    with progress() as bar:
        task = bar.add_task(name, total=total)
        yield lambda more: bar.update(task, advance=more)


@contextmanager
def progress() -> Iterator[Any]:
    """A bar that disappears; nothing where standard error is no terminal."""
    from rich.console import Console
    from rich.progress import Progress

    shown = sys.stderr is not None and sys.stderr.isatty()
    with hidden(), Progress(console=Console(stderr=True), transient=True, disable=not shown) as bar:
        yield bar


def split_names(given: list[str] | None, columns: list[str]) -> list[str]:
    """Names that came one by one, or several with commas; a column's own comma stays."""
    names: list[str] = []
    for text in given or ():
        names += [text] if text in columns else [name.strip() for name in text.split(",")]
    return names
