"""The methods of this library, side by side."""

from __future__ import annotations

from typing import Any

from localconformal.rows import at_ends, make_frame

_COLUMNS = ("estimator", "method", "guarantee", "cost", "when", "reference")
# fmt: off
_METHODS = (
    ("SLCPRegressor", "Split localized conformal prediction", "marginal",
     "fit: models of a blend, a forest of N rows; query: theirs",
     "the default: narrow intervals that follow x", "Han et al. 2022"),
    ("LocalizedConformalRegressor", "Any score, law and adjustment", "marginal",
     "that of its parts", "to compose your own method", "Han et al. 2022, section 4"),
    ("SplitConformalRegressor", "Split conformal prediction", "marginal",
     "fit: sorting n scores; query: none", "homoscedastic noise; the baseline",
     "Papadopoulos et al. 2002, Lei et al. 2018"),
    ("ConformalizedQuantileRegressor", "Conformalized quantile regression", "marginal",
     "fit: quantile models; query: theirs", "you have a good quantile model", "Romano et al. 2019"),
    ("MADSplitRegressor", "Normalised residuals", "marginal",
     "fit: a model of the residuals' size; query: its own",
     "noise of one shape whose scale depends on x", "Papadopoulos et al. 2008, Lei et al. 2018"),
    ("MondrianConformalRegressor", "Mondrian conformal prediction", "within each cell",
     "fit: sorting n scores; query: none", "known, large groups", "Vovk et al. 2003"),
    ("ConditionalConformalRegressor", "Conditional conformal prediction over a class",
     "within each group, and under each shift of the class",
     "fit: quantile regression of n scores on d functions; query: about d / 2 steps of d^2",
     "groups that overlap; functions of x, shifts", "Gibbs et al. 2025"),
    ("LocartRegressor", "LOCART (and LOFOREST, which is marginal only)", "within each cell",
     "fit: a tree of N scores; query: a walk down it", "a partition that a person can read",
     "Cabezas et al. 2025"),
    ("DistSplitRegressor", "Dist-split; distributional conformal prediction", "marginal", "as SLCP",
     "skewed noise; a whole predictive distribution",
     "Izbicki et al. 2020, Chernozhukov et al. 2021"),
    ("HPDSplitRegressor", "Highest predictive density", "marginal",
     "fit: a conditional density; query: a grid of cells",
     "responses with several modes: regions of several pieces", "Izbicki et al. 2022"),
    ("CDSplitRegressor", "Conditional density, by cells of similar densities", "within each cell",
     "as HPD-split, plus a clustering of N densities",
     "several modes, and coverage among similar rows", "Izbicki et al. 2022"),
    ("CHRRegressor", "Conformal histogram regression", "marginal",
     "as HPD-split, plus a nested family per row", "skewed noise, the shortest single interval",
     "Sesia and Romano 2021"),
    ("LCPRegressor", "Localized conformal prediction", "marginal", "fit: n^2 pairs; query: n log n",
     "few rows, a kernel, an exact method; intervals may be infinite", "Guan 2023"),
    ("RLCPRegressor", "Randomly localized conformal prediction", "marginal",
     "fit: a kernel matrix of 2,000 rows; query: n log n",
     "coverage near each point, in the kernel's sense; intervals may be infinite",
     "Hore and Barber 2025"),
    ("LVDRegressor", "Locally valid and discriminative", "none exact",
     "fit: a learned metric; query: n log n",
     "for comparison; wide or infinite where rows are sparse",
     "Lin et al. 2021"),
    ("WeightedConformalRegressor", "Weighted conformal prediction",
     "marginal, under the shift that the weights describe",
     "fit: a classifier, if weights are learned; query: log n",
     "new rows follow another distribution of x than calibration rows", "Tibshirani et al. 2019"),
    ("AdaptiveIntervals", "Quantile tracking, ACI, DtACI, rolling sets, around a fitted estimator",
     "long-run, on every stream", "update: microseconds per label beyond the model's own",
     "labels arrive over time and the data drift; time series",
     "Gibbs and Candes 2021, 2024, Angelopoulos et al. 2023"),
)
# fmt: on


def methods() -> Any:
    """The estimators of this library: what each promises, what it costs, when to use it.

    Returns
    -------
    pandas frame, one row per estimator
        ``estimator`` (its name in this package; `AdaptiveIntervals` wraps a fitted estimator),
        ``method``, ``guarantee`` (at any sample size, under the assumptions in its
        ``guarantee_``), ``cost`` (beyond that of the base model, with n calibration rows and N
        training rows), ``when`` to use it, ``reference``.

    Examples
    --------
    >>> methods().set_index("estimator").loc["SplitConformalRegressor", "guarantee"]
    'marginal'
    """
    columns = dict(zip(_COLUMNS, map(list, zip(*_METHODS, strict=True)), strict=True))
    return make_frame(at_ends(columns, ["estimator"], ["guarantee"]), like=None)
