"""Files that are either whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import typer


def write_whole(path: Path, write: Callable[[Path], None]) -> Path:
    """Let ``write`` fill a temporary file beside ``path``, then rename it; return the path.

    Whatever interrupts the writing, Ctrl-C too, leaves the previous file or none. A folder that
    cannot be written to ends the command with one sentence.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix
        )
    except OSError as error:
        typer.echo(
            f"Cannot write to {path.parent}: {error.strerror}; choose another --out.", err=True
        )
        raise typer.Exit(1) from error
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        # mkstemp makes private files; a plot is as readable as any new file.
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
