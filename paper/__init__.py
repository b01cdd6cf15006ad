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

#: Module -> the experiments in it: their values have their names in capitals.
MODULES = {
    "paper.age": ("age",),
    "paper.ablations": ("bandwidth", "capacity", "minibatch"),
    "paper.claims": ("independent_scores", "proposition2", "score_functions", "true_quantiles"),
    "paper.costs": ("batch_cost", "levels", "run_time"),
    "paper.simulations": ("covariate_shift", "kernels", "simulations"),
    "paper.tables": ("all_rows", "bike", "defaults", "meps21", "star", "table1", "table3"),
}
#: Name -> module.
EXPERIMENTS = dict(sorted((name, where) for where, names in MODULES.items() for name in names))


def load_experiment(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in EXPERIMENTS:
        raise unknown_choice("experiment", name, EXPERIMENTS)
    experiment: Experiment = getattr(import_module(EXPERIMENTS[name]), name.upper())
    return experiment
