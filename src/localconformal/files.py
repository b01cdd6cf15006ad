"""Files that are either whole or not there."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class UnwritableError(OSError):
    """A place where no file can be made; the message is one sentence."""


def write_whole(path: Path, write: Callable[[Path], object]) -> Path:
    """Let ``write`` fill a temporary file beside ``path``, then rename it; return the path.

    Whatever interrupts the writing, Ctrl-C too, leaves the previous file or none.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_whole(folder / "made" / "note.txt", lambda part: part.write_text("whole")).read_text()
    'whole'
    """
    return write_together({path: write})[0]


def write_together(writers: Mapping[Path, Callable[[Path], object]]) -> list[Path]:
    """Write several files under temporary names, and rename them when all of them are whole.

    Parameters
    ----------
    writers : path -> function that fills the file it is given
        Folders are made if needed. A file that exists is replaced.

    Returns
    -------
    list of Path
    """
    parts: dict[Path, Path] = {}
    made: list[Path] = []
    try:
        for path, write in writers.items():
            made += make_folder(path.parent)
            parts[path] = reserve(path)
            write(parts[path])
        mode = 0o666 & ~_umask()
        with uninterrupted():
            for path, part in parts.items():
                # mkstemp makes private files; a result is as readable as any new file.
                part.chmod(mode)
                part.replace(path)
    except BaseException:
        for part in parts.values():
            part.unlink(missing_ok=True)
        for folder in reversed(made):
            if not any(folder.iterdir()):
                folder.rmdir()
        raise
    return list(parts)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C is too late here and has no effect, so that files are renamed together or not at all.

    Only the main thread gets it, and only there can it be held.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Any = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        # None is a handler that was not set by Python, and cannot be put back by it.
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def check_folder(folder: Path) -> None:
    """A folder is there to be written to, or can be made; nothing is made yet.

    Examples
    --------
    >>> check_folder(Path(tempfile.mkdtemp()) / "not" / "yet")
    """
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not there.is_dir():
        raise UnwritableError(
            f"Cannot write to {folder}: {there} is no folder; choose another place."
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise UnwritableError(f"Cannot write to {folder}: {there} is closed; choose another place.")


def make_folder(folder: Path) -> list[Path]:
    """Make a folder, and return those of its path that were not there, the outermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()][::-1]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return missing


def reserve(path: Path) -> Path:
    """An empty file of another name beside the path, with its suffix."""
    if path.is_dir():
        raise UnwritableError(f"Cannot write {path}: it is a folder; choose another place.")
    try:
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix
        )
    except OSError as error:
        raise unwritable(path.parent, error) from error
    os.close(handle)
    return Path(name)


def unwritable(folder: Path, error: OSError) -> UnwritableError:
    """Why nothing can be made in the folder, in one sentence."""
    reason = error.strerror or str(error)
    return UnwritableError(f"Cannot write to {folder}: {reason}; choose another place.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
