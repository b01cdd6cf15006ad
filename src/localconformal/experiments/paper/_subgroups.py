"""What the subgroup tables share: coverage and length by group, on test rows only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from localconformal.datasets import DATASETS
from localconformal.experiments.experiment import Case, Experiment, Line, Output, Row
from localconformal.experiments.methods import METHODS
from localconformal.experiments.models import FAMILIES
from localconformal.experiments.objective import Sets, try_method
from localconformal.experiments.paper.table1 import with_infinite
from localconformal.experiments.presets import Preset
from localconformal.experiments.printed import printed
from localconformal.experiments.rows import real_split
from localconformal.experiments.seeds import seed_of
from localconformal.experiments.summary import compared, in_per_cent, over_repeats, select
from localconformal.metrics import binomial_band

BESIDE = ("split", "SLCP-auto")
OVERALL = "overall"


@dataclass(frozen=True)
class Subgroups:
    """A table of the paper: its data set, and which group of ours each of its rows is.

    ``groups`` goes from our label to the row's name in ``expected.json``; ``cannot`` says why
    the paper's numbers are no target.
    """

    title: str
    table: str
    dataset: str
    groups: dict[str, str]
    cannot: str

    def experiment(self) -> Experiment:
        """The experiment of this table."""
        return Experiment(self.title, self.cases, self.run, self.report, version=2)

    @property
    def model(self) -> str:
        """The paper's network where it runs, else the forest."""
        return "random_forest" if FAMILIES["neural_net"].left_out else "neural_net"

    @property
    def methods(self) -> tuple[str, ...]:
        """The paper's, and two beside them."""
        return (*printed()[self.table]["methods"], *BESIDE)

    def cases(self, preset: Preset) -> list[Case]:
        """One task a repeat."""
        return [{"model": self.model, "repeat": repeat} for repeat in range(preset.repeats)]

    def run(self, case: Case, preset: Preset) -> list[Row]:
        """A row for each method and group of the test rows."""
        split = real_split(self.dataset, case["repeat"], preset.max_rows)
        seed = seed_of("method", self.dataset, case["model"], case["repeat"])
        models = FAMILIES[case["model"]].make(split.train.X, split.train.y, seed, preset)
        prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
        rows: list[Row] = []
        for name in self.methods:
            model = METHODS[name](models, seed, preset)
            row, sets = try_method(name, model, split, prediction)
            rows += [row] if sets is None else by_group(name, sets, split.test.groups)
        return rows

    def report(self, rows: list[Row], preset: Preset) -> Output:
        """Length and coverage of each group and method, with bands."""
        lines = []
        for label, name in {OVERALL: OVERALL, **self.groups}.items():
            for method in self.methods:
                lines += self._lines(select(rows, group=label, method=method), label, name, method)
        notes = [
            f"{self.dataset}; base model {self.model}. Test rows only; lengths are means of "
            "finite ones.",
            "A band holds the coverage behind the rows of one split with probability 95 %.",
            *filter(None, [DATASETS[self.dataset].stand_in]),
            *([FAMILIES["neural_net"].left_out] if self.model != "neural_net" else []),
        ]
        return Output(lines, {"Coverage with bands": self._bands(rows)}, notes=notes)

    def _lines(self, rows: list[Row], label: str, name: str, method: str) -> list[Line]:
        known = printed()[self.table]
        paper: tuple[float | None, float | None] = (None, None)
        if method in known["methods"] and name in known:
            length, covered = known[name][known["methods"].index(method)]
            paper = (length, covered)
        of = {"group": self._shown(label), "method": method}
        ours = over_repeats(rows, "length")
        share = in_per_cent(over_repeats(rows, "coverage"))
        length_line = compared({**of, "quantity": "length"}, paper[0], ours, "length", self.cannot)
        return [
            with_infinite(length_line, rows),
            compared({**of, "quantity": "coverage, %"}, paper[1], share, "coverage", self.cannot),
        ]

    def _shown(self, label: str) -> str:
        """The paper's word for a group, without its number of rows."""
        return self.groups.get(label, "").rpartition("_")[0] or label

    def _bands(self, rows: list[Row]) -> list[Row]:
        table = []
        places = dict.fromkeys((row["group"], row["method"]) for row in rows if "group" in row)
        for label, method in places:
            mine = select(rows, group=label, method=method)
            n = round(float(np.mean([row["n"] for row in mine])))
            share = float(np.mean([row["coverage"] for row in mine]))
            low, high = binomial_band(round(share * n), n)
            table.append(
                {
                    "group": self._shown(label),
                    "method": method,
                    "test rows a split": n,
                    "coverage": share,
                    "band from": low,
                    "to": high,
                    "share infinite": float(np.mean([row["infinite"] for row in mine])),
                }
            )
        return table


def by_group(method: str, sets: Sets, groups: np.ndarray) -> list[Row]:
    """Rows, coverage, mean finite length and share of infinite ones, overall and by group."""
    everyone = np.ones(len(groups), dtype=bool)
    members = {OVERALL: everyone, **{str(g): groups == g for g in np.unique(groups)}}
    found: list[Row] = []
    for label, here in members.items():
        finite = sets.lengths[here & np.isfinite(sets.lengths)]
        found.append(
            {
                "method": method,
                "group": label,
                "n": int(here.sum()),
                "coverage": sets.covered[here].mean(),
                "length": finite.mean() if len(finite) else None,
                "infinite": 1.0 - len(finite) / here.sum(),
            }
        )
    return found
