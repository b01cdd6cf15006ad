"""What a folder of stores knows, read and never changed."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from localconformal.experiments.experiment import Output, Row
from localconformal.experiments.presets import Preset
from localconformal.experiments.registry import experiment_names, load_experiment
from localconformal.experiments.runner import finished, key, report
from localconformal.experiments.store import FORMAT, FORMAT_VERSION, decode


class Results:
    """Rows and outputs of the experiments of one preset, by name.

    An experiment that has no store here, or one of another version or preset, has no rows; a file
    of another format is refused.

    Parameters
    ----------
    folder : Path
        Holds ``<name>.jsonl`` of the experiments that were run.
    preset : Preset
    """

    def __init__(self, folder: Path, preset: Preset) -> None:
        self.folder, self.preset = folder, preset
        self.records = cache(self._records)

    def _records(self, name: str) -> list[dict[str, Any]]:
        if name not in experiment_names():
            return []
        about = {
            "experiment": name,
            "version": load_experiment(name).version,
            "preset": asdict(self.preset),
        }
        return read_store(self.folder / f"{name}.jsonl", about)

    def rows(self, name: str) -> list[Row]:
        """Rows of the finished tasks, with the fields of their cases."""
        known = finished(self.records(name))
        cases = load_experiment(name).cases(self.preset) if known else []
        return [
            {**case, **row}
            for case in cases
            if key(case) in known
            for row in known[key(case)]["rows"]
        ]

    def output(self, name: str) -> Output | None:
        """What the experiment says; None where nothing was run."""
        records = self.records(name)
        experiment = load_experiment(name)
        cases = experiment.cases(self.preset)
        return report(experiment, cases, records, self.preset) if records else None


def read_store(path: Path, about: dict[str, Any]) -> list[dict[str, Any]]:
    """The whole records of a store that is about this; none of one that is about anything else."""
    if not path.exists():
        return []
    first, *lines = path.read_bytes().split(b"\n")
    head = decode(first) or {}
    if (head.get("format"), head.get("format_version")) != (FORMAT, FORMAT_VERSION):
        raise ValueError(
            f"{path} is not a store of format version {FORMAT_VERSION}, so its lines cannot be "
            "read; move it away, or run the experiment again."
        )
    # As it reads when it comes back from JSON: lists, no tuples.
    wanted = json.loads(json.dumps(about))
    if any(head.get(name) != value for name, value in wanted.items()):
        return []
    found = [decode(line) for line in lines]
    return [record for record in found if record is not None]
