"""The methods of this library, side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from localconformal.rows import at_ends, make_frame


@dataclass(frozen=True)
class _Method:
    """A row of the table.

    ``guarantee``: what is promised at any sample size. ``cost``: beyond fitting the base model,
    with n calibration rows and N training rows.
    """

    estimator: str
    method: str
    guarantee: str
    cost: str
    when: str
    reference: str


_ON_AVERAGE = "marginal"
_IN_CELLS = "within each cell"
_UNDER_SHIFT = "marginal, under the shift that the weights describe"
_NONE = "none exact"

METHODS = (
    _Method(
        "SLCPRegressor",
        "Split localized conformal prediction",
        _ON_AVERAGE,
        'fit: law="auto" about 20 s; query: about 0.1 ms',
        "the default: narrow intervals that follow x",
        "Han et al. 2022",
    ),
    _Method(
        "LocalizedConformalRegressor",
        "Any score, law and adjustment",
        _ON_AVERAGE,
        "that of its parts",
        "to compose a method of one's own",
        "Han et al. 2022, section 4",
    ),
    _Method(
        "SplitConformalRegressor",
        "Split conformal prediction",
        _ON_AVERAGE,
        "fit: sorting n scores; query: none",
        "noise that is the same everywhere; the baseline",
        "Papadopoulos et al. 2002, Lei et al. 2018",
    ),
    _Method(
        "ConformalizedQuantileRegressor",
        "Conformalized quantile regression",
        _ON_AVERAGE,
        "fit: quantile models; query: theirs",
        "a good quantile model exists",
        "Romano et al. 2019",
    ),
    _Method(
        "MADSplitRegressor",
        "Normalised residuals",
        _ON_AVERAGE,
        "fit: a model of the residuals' size; query: its own",
        "noise of one shape, whose scale follows x",
        "Papadopoulos et al. 2008, Lei et al. 2018",
    ),
    _Method(
        "MondrianConformalRegressor",
        "Mondrian conformal prediction",
        _IN_CELLS,
        "fit: sorting n scores; query: none",
        "groups that are known and large",
        "Vovk et al. 2003",
    ),
    _Method(
        "LocartRegressor",
        "LOCART (and LOFOREST, which is marginal only)",
        _IN_CELLS,
        "fit: a tree of N scores; query: a walk down it",
        "a partition that a person can read",
        "Cabezas et al. 2025",
    ),
    _Method(
        "DistSplitRegressor",
        "Dist-split; distributional conformal prediction",
        _ON_AVERAGE,
        "as SLCP",
        "skewed noise; a whole predictive distribution",
        "Izbicki et al. 2020, Chernozhukov et al. 2021",
    ),
    _Method(
        "HPDSplitRegressor",
        "Highest predictive density",
        _ON_AVERAGE,
        "fit: a conditional density; query: a grid of cells",
        "responses with several modes: regions of several pieces",
        "Izbicki et al. 2022",
    ),
    _Method(
        "CDSplitRegressor",
        "Conditional density, by cells of similar densities",
        _IN_CELLS,
        "as HPD-split, and a clustering of N densities",
        "several modes, and coverage among similar rows",
        "Izbicki et al. 2022",
    ),
    _Method(
        "CHRRegressor",
        "Conformal histogram regression",
        _ON_AVERAGE,
        "as HPD-split, and a nested family for each row",
        "skewed noise, the shortest single interval",
        "Sesia and Romano 2021",
    ),
    _Method(
        "LCPRegressor",
        "Localized conformal prediction",
        _ON_AVERAGE,
        "fit: n^2 pairs; query: n log n",
        "few rows, kernels, exactness; intervals may be infinite",
        "Guan 2023",
    ),
    _Method(
        "RLCPRegressor",
        "Randomly localized conformal prediction",
        _ON_AVERAGE,
        "fit: a kernel matrix of 2,000 rows; query: n log n",
        "coverage near each point, in the kernel's sense; intervals may be infinite",
        "Hore and Barber 2025",
    ),
    _Method(
        "LVDRegressor",
        "Locally valid and discriminative",
        _NONE,
        "fit: a learned metric; query: n log n",
        "to compare; wide or infinite where rows are few",
        "Lin et al. 2021",
    ),
    _Method(
        "WeightedConformalRegressor",
        "Weighted conformal prediction",
        _UNDER_SHIFT,
        "fit: a classifier, if weights are to be learned; query: log n",
        "new rows come from elsewhere than calibration rows",
        "Tibshirani et al. 2019",
    ),
)


def methods() -> Any:
    """The estimators of this library: what each promises, what it costs, when to use it.

    Returns
    -------
    pandas frame, one row per estimator
        ``estimator`` (its name in this package), ``method``, ``guarantee`` (at any sample size,
        under the assumptions of its ``guarantee_``), ``cost`` (beyond the base model's, with n
        calibration rows and N training rows), ``when`` to use it, ``reference``.

    Examples
    --------
    >>> methods().set_index("estimator").loc["SplitConformalRegressor", "guarantee"]
    'marginal'
    """
    rows = [asdict(method) for method in METHODS]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return make_frame(at_ends(columns, ["estimator"], ["guarantee"]), like=None)
