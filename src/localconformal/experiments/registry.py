"""Which experiments there are: every module of `localconformal.experiments.paper` is one."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from localconformal.experiments.experiment import Experiment

PACKAGE = "localconformal.experiments.paper"


def experiment_names() -> list[str]:
    """Names of all experiments, sorted.

    Examples
    --------
    >>> "table1" in experiment_names()
    True
    """
    found = pkgutil.iter_modules(import_module(PACKAGE).__path__)
    return sorted(module.name for module in found if not module.name.startswith("_"))


def load_experiment(name: str) -> Experiment:
    """The ``EXPERIMENT`` of the module of this name."""
    if name not in experiment_names():
        raise ValueError(
            f"There is no experiment {name!r}; choose one of {', '.join(experiment_names())}."
        )
    experiment: Experiment = import_module(f"{PACKAGE}.{name}").EXPERIMENT
    return experiment
