"""The application and its table of commands."""

from __future__ import annotations

from typing import Annotated

import typer

from localconformal import __version__
from localconformal.cli.audit import audit
from localconformal.cli.compare import compare
from localconformal.cli.console import EXIT_CODES, answering
from localconformal.cli.demo import demo
from localconformal.cli.predict import explain, predict
from localconformal.cli.run import run

#: One function per command; users see its name and docstring.
COMMANDS = (demo, run, predict, explain, audit, compare)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="\b\nExample:  localconformal run homes.csv --target price --out homes\n"
    "          localconformal predict homes/model.skops new.csv --out new-intervals.csv\n\n"
    "\b\nExit codes:\n" + "\n".join(f"{code:>5}  {what}" for code, what in EXIT_CODES.items()),
)


def _tell(asked: bool) -> None:
    if asked:
        typer.echo(f"localconformal {__version__}")
        raise typer.Exit()


_VERSION = typer.Option("--version", callback=_tell, is_eager=True, help="Print the version.")


@app.callback()
def localconformal(version: Annotated[bool, _VERSION] = False) -> None:
    """Prediction intervals for any regression model: guaranteed coverage, adapted to each x."""


for command in COMMANDS:
    app.command()(answering(command))
