"""Finished tasks on disk: what is there is done, whatever killed the run.

A text file. Its first line names the format and the versions; every other line is one finished
task, with the checksum of its content in front. A line is written by one call and forced to the
disk before the task counts as done.

* A run that dies while it writes leaves a line without its end: it is cut off, with a message.
* A file of other versions, or that is no store, is renamed, with a message: nothing of it is used.
* A file with spoilt lines is renamed too; the lines whose checksums hold go into a new one.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORMAT = "localconformal-experiment"
#: Raised whenever the lines mean something else.
FORMAT_VERSION = 1


def encode(record: dict[str, Any]) -> bytes:
    """A line: checksum, blank, JSON.

    Examples
    --------
    >>> decode(encode({"a": 1})[:-1])
    {'a': 1}
    >>> decode(b"00000000 {}") is None
    True
    """
    text = json.dumps(record, sort_keys=True, allow_nan=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode(line: bytes) -> dict[str, Any] | None:
    """The content of a line without its end; None where the checksum does not hold."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    found = json.loads(text)
    return found if isinstance(found, dict) else None


class Store:
    """The records of one experiment.

    Parameters
    ----------
    path : Path
    about : dict
        What the records depend on, such as the experiment, its version and the preset: a file
        that is about anything else is set aside.
    say : callable
        Takes a sentence about a file that was not as it should be.
    """

    def __init__(self, path: Path, about: dict[str, Any], say: Callable[[str], None]) -> None:
        self.path, self.say = path, say
        head = {"format": FORMAT, "format_version": FORMAT_VERSION, **about}
        # As it reads when it comes back from JSON: lists, no tuples.
        self.head: dict[str, Any] = json.loads(json.dumps(head))
        self.records: list[dict[str, Any]] = self._read() if path.exists() else []

    def _read(self) -> list[dict[str, Any]]:
        content = self.path.read_bytes()
        whole, _, rest = content.rpartition(b"\n")
        first, *lines = whole.split(b"\n")
        # A store of ours has its first line whole before it has its name.
        if decode(first) != self.head:
            kept = self._set_aside()
            self.say(f"{self.path} is of another version, or no store: it is now {kept}.")
            return []
        records = [decode(line) for line in lines]
        good = [record for record in records if record is not None]
        if len(good) < len(records):
            kept = self._set_aside()
            self.say(
                f"{self.path} had {len(records) - len(good)} spoilt lines: it is now {kept}, and "
                f"the {len(good)} finished tasks that are whole were taken over."
            )
            self._start(good)
        elif rest:
            self.say(f"{self.path}: a line without its end was cut off; its task runs again.")
            with self.path.open("r+b") as file:
                file.truncate(len(content) - len(rest))
        return good

    def _set_aside(self) -> Path:
        """Rename the file to a name that is free."""
        number = 1
        while (kept := self.path.with_name(f"{self.path.name}.aside-{number}")).exists():
            number += 1
        self.path.rename(kept)
        return kept

    def _start(self, records: list[dict[str, Any]] | None = None) -> None:
        """A new file, whole before it has the name."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(f".{self.path.name}.part")
        with part.open("wb") as file:
            file.writelines(encode(record) for record in [self.head, *(records or [])])
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)

    def append(self, record: dict[str, Any]) -> None:
        """Add one record, and return when it is on the disk."""
        if not self.path.exists():
            self._start()
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            line = encode(record)
            while line:
                line = line[os.write(handle, line) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        self.records.append(record)
