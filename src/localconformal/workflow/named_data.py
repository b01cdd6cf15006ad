"""Data sets by name: what is known of each, and each as one table."""

from __future__ import annotations

from typing import Any

from localconformal.datasets import DATASETS, Dataset, DatasetEntry
from localconformal.workflow.choices import unknown


def find_dataset(name: str) -> DatasetEntry:
    """The entry of this name, or one sentence.

    Examples
    --------
    >>> find_dataset("bike").target
    'count'
    """
    if name not in DATASETS:
        raise unknown("data set", name, DATASETS)
    return DATASETS[name]


def dataset_record(entry: DatasetEntry) -> dict[str, Any]:
    """What is known of a data set without reading it, as plain data.

    Examples
    --------
    >>> record = dataset_record(find_dataset("facebook_testset"))
    >>> record["rows"], record["stand_in"][:24]
    (10044, 'Stands in for facebook_2')
    """
    return {
        "name": entry.name,
        "rows": entry.rows,
        "features": entry.features,
        "target": entry.target,
        "groups": list(entry.groups),
        "source": entry.source,
        "stand_in": entry.stand_in or None,
        "present": entry.is_present(),
    }


def dataset_table(dataset: Dataset) -> Any:
    """Features and the target as one pandas frame, the target last."""
    return dataset.X.assign(**{dataset.target: dataset.y})
