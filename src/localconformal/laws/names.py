"""Laws by name. The table is filled where all laws are known, in ``localconformal.laws``."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from localconformal.laws.base import BaseLaw
from localconformal.laws.foreign import ForeignLaw
from localconformal.models import shown

LAWS: dict[str, type[BaseLaw]] = {}


def make_law(law: Any) -> BaseLaw:
    """A fresh law from its name or from an object."""
    if isinstance(law, str) and law in LAWS:
        return LAWS[law]()
    if isinstance(law, BaseLaw):
        return clone(law)
    if isinstance(law, (str, type)) or not (hasattr(law, "fit") and hasattr(law, "quantile")):
        raise ValueError(
            f"law is {shown(law)}; one of {', '.join(map(repr, LAWS))}, or an object with the "
            "methods of a law, was expected."
        )
    return ForeignLaw(law)


def seeded(law: BaseLaw, random_state: int | None, n_jobs: int | None = None) -> BaseLaw:
    """The law with these where its own are None: a regressor's seed fixes everything."""
    own = law.get_params(deep=False)
    given = {"random_state": random_state, "n_jobs": n_jobs}
    return law.set_params(**{k: v for k, v in given.items() if k in own and own[k] is None})
