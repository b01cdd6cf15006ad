"""The SLCP paper's tables and figures, run again and put beside the printed numbers.

    python -m paper                         # what there is
    python -m paper table1 --preset smoke
    python -m paper all --jobs 2

An experiment is a value, `benchmarks.harness.Experiment`: its cases (which splits), its task (the
rows and base models of a case), its arms (what is tried on them) and its report. A new arm is a
function in `paper.methods` and a line in the table there; a new experiment is a value in one of
the modules below and a line in this table. A finished case is never run again, so raise
``version`` of the experiment when a change makes stored rows wrong.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from localconformal.text import unknown_choice

if TYPE_CHECKING:
    from benchmarks.harness import Experiment

#: Name -> where its value is.
EXPERIMENTS = {
    "age": "paper.age:AGE",
    "bandwidth": "paper.ablations:BANDWIDTH",
    "bike": "paper.tables:BIKE",
    "capacity": "paper.ablations:CAPACITY",
    "covariate_shift": "paper.simulations:COVARIATE_SHIFT",
    "independent_scores": "paper.simulations:INDEPENDENT_SCORES",
    "kernels": "paper.simulations:KERNELS",
    "meps21": "paper.tables:MEPS21",
    "minibatch": "paper.ablations:MINIBATCH",
    "one_change": "paper.ablations:ONE_CHANGE",
    "proposition2": "paper.simulations:PROPOSITION2",
    "run_time": "paper.simulations:RUN_TIME",
    "simulations": "paper.simulations:SIMULATIONS",
    "star": "paper.tables:STAR",
    "table1": "paper.tables:TABLE1",
    "table3": "paper.tables:TABLE3",
    "true_quantiles": "paper.simulations:TRUE_QUANTILES",
}


def load_experiment(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in EXPERIMENTS:
        raise unknown_choice("experiment", name, EXPERIMENTS)
    module, _, value = EXPERIMENTS[name].partition(":")
    experiment: Experiment = getattr(import_module(module), value)
    return experiment
