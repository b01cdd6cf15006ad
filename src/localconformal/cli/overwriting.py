"""No command writes over what it reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from localconformal.files import UnwritableError


def check_inputs_stay(outputs: Iterable[Path], inputs: Iterable[Path | None]) -> None:
    """None of the outputs is an input or lies in a folder that is one, or one sentence.

    Links are followed. To be called before anything is computed.

    Parameters
    ----------
    outputs : paths to be written
    inputs : paths to be read
        Files, or folders of Parquet files; None, and what is not there, is no input.

    Examples
    --------
    >>> check_inputs_stay([Path("made.csv")], [Path("homes.csv"), None])
    """
    given = [path for path in inputs if path is not None and path.exists()]
    for output in outputs:
        for one in given:
            if is_or_lies_in(output, one):
                place = "a file in the input folder" if one.is_dir() else "the input"
                raise UnwritableError(
                    f"Cannot write {output}: it would be {place} {one}, which is only read; choose "
                    "another --out."
                )


def is_or_lies_in(output: Path, given: Path) -> bool:
    """Whether the paths lead to one place, or that of the output is in the folder given."""
    if not given.is_dir():
        return is_same(output, given)
    if any(is_same(place, given) for place in (output, *output.resolve().parents)):
        return True
    # A folder may have links to files elsewhere.
    return any(is_same(output, link) for link in given.rglob("*") if link.is_symlink())


def is_same(one: Path, other: Path) -> bool:
    """Whether both are there, and are the same file or folder under whatever names."""
    return one.exists() and other.exists() and one.samefile(other)
