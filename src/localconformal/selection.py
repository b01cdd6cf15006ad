"""``law="auto"``: which law a regressor uses when the user does not say."""

from __future__ import annotations

from typing import Any

from localconformal.laws import BaseLaw, KernelLaw, make_law


def select_law(law: Any, random_state: int, n_jobs: int | None = None) -> BaseLaw:
    """An unfitted law from a name, an object or "auto".

    "auto" is the Gaussian kernel law with the cross-validated bandwidth. A law whose own
    ``random_state`` or ``n_jobs`` is None gets these: the regressor's seed fixes everything.

    Examples
    --------
    >>> select_law("auto", random_state=0)
    KernelLaw(bandwidth='cv', random_state=0)
    """
    made = KernelLaw(bandwidth="cv") if _is_auto(law) else make_law(law)
    own = made.get_params(deep=False)
    given = {"random_state": random_state, "n_jobs": n_jobs}
    return made.set_params(**{k: v for k, v in given.items() if k in own and own[k] is None})


def _is_auto(law: Any) -> bool:
    return isinstance(law, str) and law == "auto"
