"""Files that are either complete or absent."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class UnwritableError(OSError):
    """A path that cannot be written; the message is one sentence."""


def write_whole(path: Path, write: Callable[[Path], object]) -> Path:
    """Let ``write`` fill a temporary file next to ``path``, then rename it; return the path."""
    return write_together({path: write})[0]


def write_together(
    writers: Mapping[Path, Callable[[Path], object]], *, remove: Iterable[Path] = ()
) -> list[Path]:
    """Write several files under temporary names, and rename them when all are complete.

    If anything fails, even a rename, or on Ctrl-C, the previous files are restored. Only an abrupt
    end of the process (SIGKILL, a power cut) during the renames can leave a mixture. ``remove`` are
    previous files that must not stay next to the new ones.
    """
    parts: dict[Path, Path] = {}
    made: list[Path] = []
    try:
        for path, write in writers.items():
            made += [one for one in reversed(path.parents) if not one.exists()]
            parts[path] = _reserve(path)
            try:
                write(parts[path])
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                why = f"{os.strerror(error.errno)}; free some space, or choose another place"
                raise UnwritableError(f"Cannot write {path}: {why}.") from error
        # mkstemp makes private files; a result should be as readable as any new file.
        mask = os.umask(0)
        os.umask(mask)
        for part in parts.values():
            part.chmod(0o666 & ~mask)
        _rename_together(parts, remove)
    except BaseException:
        for part in parts.values():
            part.unlink(missing_ok=True)
        for folder in reversed(made):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        raise
    return list(parts)


def _rename_together(parts: Mapping[Path, Path], remove: Iterable[Path]) -> None:
    """Give each part its name; if one rename fails, undo all."""
    kept: dict[Path, Path] = {}

    def set_aside(path: Path) -> None:
        if path.is_file() or path.is_symlink():
            kept[path] = _reserve(path)
            path.replace(kept[path])

    try:
        for path in remove:
            set_aside(path)
        for path, part in parts.items():
            # A single file is replaced in one step; with several, the previous ones are set aside.
            if len(parts) > 1:
                set_aside(path)
            part.replace(path)
    except BaseException:
        for path, part in parts.items():
            if len(parts) > 1 and not part.exists():
                path.unlink(missing_ok=True)
        for path, old in kept.items():
            if os.path.lexists(path):
                old.unlink()
            else:
                old.replace(path)
        raise
    for old in kept.values():
        old.unlink()


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path | None] = ()) -> None:
    """Check that the files can be written, and that none is an input or in an input folder."""
    given = [path for path in inputs if path is not None and path.exists()]
    for output in outputs:
        folder = output.parent
        there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
        if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            lacks = "writable" if there.is_dir() else "a folder"
            why = f"{there} is not {lacks}; choose another place"
            raise UnwritableError(f"Cannot write to {folder}: {why}.")
        for one in given:
            # Links are followed.
            places = (output, *(output.resolve().parents if one.is_dir() else ()))
            if any(place.exists() and place.samefile(one) for place in places):
                kind = "a file in the input folder" if one.is_dir() else "the input"
                why = f"it is {kind} {one}, which is only read; choose another place"
                raise UnwritableError(f"Cannot write {output}: {why}.")


def _reserve(path: Path) -> Path:
    """An empty file next to the path, with its suffix; its folder is created."""
    if path.is_dir():
        raise UnwritableError(f"Cannot write {path}: it is a folder; choose another place.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(path.suffix, f".{path.stem}-", path.parent)
    except OSError as error:
        said = f"Cannot write to {path.parent}: {error.strerror or error}; choose another place."
        raise UnwritableError(said) from error
    os.close(handle)
    return Path(name)
