"""The methods by the short names that commands take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from localconformal.regressors.table import METHODS, Method
from localconformal.workflow.choices import unknown

#: Short name -> estimator.
SHORT_NAMES = {
    "slcp": "SLCPRegressor",
    "localized": "LocalizedConformalRegressor",
    "split": "SplitConformalRegressor",
    "cqr": "ConformalizedQuantileRegressor",
    "madsplit": "MADSplitRegressor",
    "mondrian": "MondrianConformalRegressor",
    "locart": "LocartRegressor",
    "distsplit": "DistSplitRegressor",
    "hpdsplit": "HPDSplitRegressor",
    "cdsplit": "CDSplitRegressor",
    "chr": "CHRRegressor",
    "lcp": "LCPRegressor",
    "rlcp": "RLCPRegressor",
    "lvd": "LVDRegressor",
    "weighted": "WeightedConformalRegressor",
}
#: Methods that are another one until they are told more: what they are then.
NEEDS_MORE = {
    "localized": "is slcp until it is given a score, a law or an adjustment",
    "weighted": "is split conformal prediction until it is given weights, or rows of the new "
    "population",
}


@dataclass(frozen=True)
class NamedMethod:
    """A method of the library and its short name.

    Attributes
    ----------
    name : str
    facts : Method
        Its row of `localconformal.regressors.table`.
    """

    name: str
    facts: Method

    @property
    def estimator(self) -> Any:
        """The estimator's class."""
        import localconformal

        return getattr(localconformal, self.facts.estimator)

    @property
    def needs_more(self) -> str | None:
        """What the method is without further input, if that is another method."""
        return NEEDS_MORE.get(self.name)


def named_methods() -> tuple[NamedMethod, ...]:
    """Every method, in the order of the library's table.

    Examples
    --------
    >>> [method.name for method in named_methods()][:3]
    ['slcp', 'localized', 'split']
    """
    facts = {method.estimator: method for method in METHODS}
    return tuple(NamedMethod(name, facts[estimator]) for name, estimator in SHORT_NAMES.items())


def find_method(name: str) -> NamedMethod:
    """The method of this short name, or of this estimator; case does not matter.

    Examples
    --------
    >>> find_method("CQR").facts.estimator
    'ConformalizedQuantileRegressor'
    >>> find_method("SplitConformalRegressor").name
    'split'
    """
    by_name = {method.name: method for method in named_methods()}
    by_name |= {method.facts.estimator.lower(): method for method in by_name.values()}
    asked = name.strip().lower()
    if asked in by_name:
        return by_name[asked]
    raise unknown("method", name, SHORT_NAMES)
