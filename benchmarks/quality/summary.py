"""From records to numbers: paired ratios, coverage against its band, verdicts' ingredients.

A data set counts on the seeds on which auto and every peer have a record, so that the tables of
a run under way are fair. The best peer of a data set is the one of
least mean interval score over these seeds: chosen with hindsight, in the peers' favour.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.harness import LEVEL, about, finished, read_store
from benchmarks.quality.experiment import Setting, name_of, quality
from benchmarks.quality.methods import METHODS, PEERS
from benchmarks.tables import below_bands


def read_records(folder):
    """The records of all stores in the folder, flat: cap of rows, case and figures."""
    found = []
    for path in sorted(folder.glob("quality_*.jsonl")):
        cap = path.stem.removeprefix("quality_")
        setting = Setting(None if cap == "all" else int(cap))
        records = read_store(path, about(name_of(setting), quality(), setting))
        for record in finished(records).values():
            (row,) = record["rows"]
            found.append({"max_rows": cap, **record["case"], **row})
    return found


def regimes(records):
    """(cap of rows, its records) of each store: numbers first, then "all".

    A score that JSON could not hold is infinite.
    """
    frame = pd.DataFrame(records)
    for name in ("interval_score", "mean_length", "median_length") if len(frame) else ():
        frame[name] = frame[name].astype(float).fillna(np.inf)
    return list(frame.groupby("max_rows")) if len(frame) else []


def fair_rows(frame):
    """Rows of the seeds on which auto and all peers of the data set have a record."""
    needed = frame[frame["method"].isin(["auto", *PEERS])]
    seen = needed.groupby(["dataset", "seed"])["method"].nunique()
    asked = needed.groupby("dataset")["method"].nunique()
    fair = seen[seen == asked.reindex(seen.index, level="dataset")].index
    return frame[pd.MultiIndex.from_frame(frame[["dataset", "seed"]]).isin(fair)]


def in_order(names, order):
    """Those of ``order`` that occur in names, in that order."""
    present = set(names)
    return [name for name in order if name in present]


@dataclass(frozen=True)
class Ratio:
    """Mean over seeds of paired ratios, with its standard error (NaN where there is none)."""

    mean: float
    error: float


class Scores:
    """One figure of one regime, by data set, seed and method."""

    def __init__(self, frame, figure="interval_score"):
        rows = fair_rows(frame)
        self.table = rows.pivot(index=["dataset", "seed"], columns="method", values=figure)
        self.datasets = list(dict.fromkeys(rows["dataset"]))
        self.methods = in_order(self.table.columns, METHODS)

    def of(self, dataset):
        return self.table.loc[dataset]

    def best(self, dataset, among):
        """The method of least mean score among those that finished every seed; None: no such."""
        table = self.of(dataset)
        means = table[[name for name in among if name in table]].mean(skipna=False)
        means = means[np.isfinite(means)]
        return means.idxmin() if len(means) else None

    def ratio(self, dataset, method, reference):
        """Paired ratio, or None where one of them is missing."""
        table = self.of(dataset)
        if reference is None or method not in table or reference not in table:
            return None
        ratios = (table[method] / table[reference]).dropna()
        if not len(ratios):
            return None
        # An infinite ratio has no standard error, as one ratio alone has none.
        error = ratios.std(ddof=1) / np.sqrt(len(ratios)) if np.isfinite(ratios).all() else np.nan
        return Ratio(ratios.mean(), error)

    def ratios(self, method, reference_of):
        """Data set -> ratio to ``reference_of(dataset)``, where there is one."""
        found = {one: self.ratio(one, method, reference_of(one)) for one in self.datasets}
        return {dataset: ratio for dataset, ratio in found.items() if ratio is not None}

    def best_peer(self, dataset):
        return self.best(dataset, PEERS)


def geometric_mean(ratios):
    """Over data sets, with its standard error by propagation; None of nothing."""
    if not ratios:
        return None
    means = np.array([ratio.mean for ratio in ratios.values()])
    errors = np.array([ratio.error for ratio in ratios.values()])
    mean = float(np.exp(np.log(means).mean()))
    return Ratio(mean, mean * float(np.sqrt(((errors / means) ** 2).sum())) / len(means))


def outside_bands(frame):
    """Per method: cells, cells below and above the 95 % band, and below the Bonferroni band."""
    found = {row.pop("method"): row for row in below_bands(frame.to_dict("records"), LEVEL)}
    return {name: found[name] for name in in_order(found, METHODS)}


def conditional_gaps(frame, dataset):
    """Method -> mean |conditional coverage - level| over seeds, on a simulation."""
    rows = fair_rows(frame)
    means = rows[rows["dataset"] == dataset].groupby("method")["conditional_gap"].mean()
    return {name: means[name] for name in in_order(means.index, METHODS)}
