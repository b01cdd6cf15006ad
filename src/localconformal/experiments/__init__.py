"""The paper's tables and figures, run again and put beside the printed numbers.

    localconformal reproduce table1 --preset smoke
    localconformal reproduce all

How an experiment is added
--------------------------
One file in ``experiments/paper``, whose name is the experiment's; nothing else is edited. It ends
with ``EXPERIMENT = Experiment(title, cases, run, report)``, three functions:

* ``cases(preset)`` lists the tasks, each a dict of names and numbers such as ``{"dataset": "bike",
  "model": "ridge", "repeat": 0}``. Take sizes from the `Preset` (``repeats``, ``max_rows``,
  ``simulated_rows``, ...), let the repeat change last, and keep ``smoke`` to a few seconds.
* ``run(case, preset)`` does one task and returns rows (dicts of plain numbers and texts). It may
  run in any process and must depend on its arguments alone: every seed is `seed_of` names. Parts
  to use: `real_split` and `simulated_split` give the rows; ``FAMILIES[model].make(...)`` gives
  base models whose fits all methods of the task share; ``METHODS[name](models, seed, preset)``
  gives a method, or build any regressor of the library on ``models.mean`` and
  ``models.quantile``; `try_method` trains, calibrates and measures it.
* ``report(rows, preset)`` gives an `Output`: lines (`compared` and `same_direction` make them, with
  the paper's value from `printed`), tables of our own, figures (file name -> function that draws
  into a path; import matplotlib inside it), notes. Rows carry the fields of their case; a method
  that failed has ``failed`` and no figures.

A method or a family of models is added by one file in ``experiments/methods`` or
``experiments/models`` and its name in the table there. A finished task is never run again, so
raise ``version`` of the experiment when a change makes stored rows wrong.

In a file::

    def cases(preset):
        return [{"simulation": "sim2", "repeat": r} for r in range(preset.repeats)]

    def run(case, preset):
        sizes = (preset.simulated_rows, preset.simulated_rows, preset.test_rows)
        split = simulated_split(load_simulation(case["simulation"]), case["repeat"], sizes)
        seed = seed_of("method", case["simulation"], case["repeat"])
        models = FAMILIES["random_forest"].make(split.train.X, split.train.y, seed, preset)
        prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
        return [
            try_method(name, METHODS[name](models, seed, preset), split, prediction)[0]
            for name in ("split", "SLCP")
        ]

    def report(rows, preset):
        ours = over_repeats(select(rows, method="SLCP"), "length")
        return Output([compared({"quantity": "length"}, 1.27, ours, "length")])

    EXPERIMENT = Experiment("Simulation 2", cases, run, report)
"""

from localconformal.experiments.experiment import Experiment, Line, Output
from localconformal.experiments.presets import PRESETS, Preset
from localconformal.experiments.registry import experiment_names, load_experiment
from localconformal.experiments.runner import Progress, run_experiment

__all__ = [
    "PRESETS",
    "Experiment",
    "Line",
    "Output",
    "Preset",
    "Progress",
    "experiment_names",
    "load_experiment",
    "run_experiment",
]
