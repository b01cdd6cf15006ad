"""What commands print: results on standard output, everything else on standard error.

Commands import heavy packages inside functions, so ``--help`` is quick. Bad input raises a
``ValueError`` or ``OSError`` of one sentence; anything else is a bug, with a traceback and code 1.
Files are written at the very end, so a failure before that leaves nothing behind.
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

from localconformal.text import json_text, on_command_line, one_line, visible

#: Meaning of each exit code, as `localconformal --help` prints it.
EXIT_CODES = {
    0: "done",
    1: "a bug in localconformal, or a missing package",
    2: "a file, an option or a value cannot be used; nothing was written",
    4: "done and all files written, but the result could not be printed",
    129: "hung up (SIGHUP); no file is half written",
    130: "interrupted (Ctrl-C); nothing was written",
    143: "terminated (SIGTERM); no file is half written",
}
_BAD_INPUT, _UNPRINTED, _INTERRUPTED = 2, 4, 130
#: Characters of a sentence before it is cut.
_LONGEST = 2_000
#: Help pages load nothing, so the list of methods is elsewhere.
METHOD_NAMES = "slcp, cqr, split, ...; an unknown name lists all"

#: For arguments and options whose default is not shown.
argument = functools.partial(typer.Argument, show_default=False)
option = functools.partial(typer.Option, show_default=False)
# Arguments and options of more than one command.
Data = Annotated[Path, argument(help="A CSV or Parquet file, or a folder of Parquet files.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Seed = Annotated[int, typer.Option(help="Random seed.", min=0)]
Target = Annotated[str, option("--target", "-t", help="Column to predict.")]
Columns = list[str] | None
Features = Annotated[Columns, option(help="Features: a,b or repeated. Default: all columns.")]
Model = Annotated[str, typer.Option(help="default, hgb, forest, linear, or a .skops file.")]
TestSize = Annotated[float, typer.Option(help="Share of rows held out for the check.")]
Support = Annotated[str | None, option(help="LOW,HIGH of the target; '0,' is 0 or more.")]
Integer = Annotated[bool, typer.Option("--integer", help="The target is a whole number.")]
Sides = Annotated[str | None, option(help="upper or lower: that bound only.")]
Folds = Annotated[str | None, option("--cv", help="Number of folds, or loo.")]
Out = Annotated[
    Path, typer.Option(help="Output folder; files of the same name are replaced.", file_okay=False)
]


def answering(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with user errors as one sentence and the documented exit codes."""

    @functools.wraps(command)
    def answered(*args: Any, **options: Any) -> None:
        try:
            with _one_line_warnings(), on_command_line():
                command(*args, **options)
        except KeyboardInterrupt:
            _complain("Interrupted; nothing was written.")
            raise typer.Exit(_INTERRUPTED) from None
        except MemoryError:
            remedy = "use fewer columns or rows, or fit with Dask in Python"
            _complain(f"The table does not fit into memory; {remedy}.")
            raise typer.Exit(_BAD_INPUT) from None
        except (ValueError, OSError) as error:
            # To find out where a user error comes from.
            if os.environ.get("LOCALCONFORMAL_TRACEBACK"):
                raise
            said = one_line(error, _LONGEST) or type(error).__name__
            if isinstance(error, OSError) and error.strerror and error.filename:
                said = f"{error.filename}: {error.strerror}."
            _complain(said)
            raise typer.Exit(_BAD_INPUT) from error

    return answered


def _complain(text: str) -> None:
    typer.echo(visible(text), err=True)


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Print user warnings as sentences on standard error, each once, at the end; no others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            said = (one.message for one in caught if issubclass(one.category, UserWarning))
            for text in dict.fromkeys(one_line(message, _LONGEST) for message in said):
                _complain(f"Note: {text}")


def prose(text: str) -> Any:
    """A paragraph, to be wrapped at the width of the terminal."""
    from rich.text import Text

    return Text(visible(text))


def numbers_table(title: str, caption: str, *headings: str) -> Any:
    """An empty rich table: names left-aligned, numbers right-aligned."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    table.add_column(headings[0], no_wrap=True)
    for heading in headings[1:]:
        # Long words are folded, never cut.
        table.add_column(heading, justify="right", overflow="fold")
    return table


def show(document: Mapping[str, Any], parts: Iterable[Any], as_json: bool) -> None:
    """Print the result, as one JSON document or as sentences and rich tables, then its files.

    Texts are printed as they are: no markup and no wrapping, so a path can be copied, but control
    characters are escaped. Call it after the files are written, so that output that cannot be
    printed is a different error from files that cannot be written.
    """
    from rich.console import Console

    console, files, lines = Console(), document.get("files", {}), []
    width = max(map(len, files), default=0) + 1
    for what, path in files.items():
        size = path.stat().st_size / 1e6
        large = f" ({size:,.0f} MB)" if size > 50 else ""
        lines.append(f"{what[0].upper()}{what[1:] + ':':<{width}}{path}{large}")
    try:
        if as_json:
            typer.echo(json_text(document))
        for part in () if as_json else [*parts, *lines]:
            if isinstance(part, str):
                console.print(visible(part), soft_wrap=True, highlight=False, markup=False)
            else:
                console.print(part)
        sys.stdout.flush()
    except OSError as error:
        # Otherwise Python would try to print the rest at exit, and complain.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        done = "the command is done and its files are written"
        _complain(f"Cannot print the result ({error.strerror}); {done}.")
        raise typer.Exit(_UNPRINTED) from error


@contextmanager
def log_lines() -> Iterator[None]:
    """Print what the library logs, line by line, on standard error."""
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


def ends_of(support: str | None) -> Any:
    """The two ends given as "LOW,HIGH", None for an open one; None if the option is not given."""
    if support is None:
        return None
    try:
        low, high = (float(end) if end.strip() else None for end in support.split(","))
    except ValueError:
        what = "expected LOW,HIGH, one of which may be empty, such as '0,' or '0,100'"
        raise ValueError(f"got --support {support!r}; {what}.") from None
    return low, high


def folds_of(cv: str | None) -> int | str | None:
    """The number of folds, or the word that was given."""
    return int(cv) if cv and cv.isdecimal() else cv


def split_names(given: list[str] | None, columns: list[str]) -> list[str]:
    """Names given one by one or separated by commas; a comma within a column name is kept."""
    parts = ([text] if text in columns else text.split(",") for text in given or ())
    return [name if name in columns else name.strip() for names in parts for name in names]
