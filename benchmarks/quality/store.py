"""Records on disk, a JSON object a line: what is there is done, whatever killed the run."""

import json
import os
import sys


class Store:
    """Records in a file that grows by whole lines.

    A line reaches the disk before the next task counts as done. A run that dies while writing
    leaves a line without its end: it is dropped, with a message, and its task runs again.
    """

    def __init__(self, path):
        self.path = path
        self.records = self._read()

    def _read(self):
        if not self.path.exists():
            return []
        text = self.path.read_bytes()
        whole, _, rest = text.rpartition(b"\n")
        if rest:
            print(f"{self.path}: dropped a line without its end.", file=sys.stderr)
            with self.path.open("r+b") as file:
                file.truncate(len(text) - len(rest))
        return [json.loads(line) for line in whole.splitlines()]

    def append(self, record):
        """Add one record, and return when it is on the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.records.append(record)
