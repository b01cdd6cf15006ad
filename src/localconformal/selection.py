"""``law="auto"``: which law a regressor uses when the user does not say."""

from __future__ import annotations

from typing import Any

from localconformal.laws import BaseLaw, KernelLaw, make_law


def select_law(law: Any, random_state: int) -> BaseLaw:
    """An unfitted law from a name, an object or "auto".

    "auto" is the Gaussian kernel law with the cross-validated bandwidth. A law whose own
    ``random_state`` is None gets this one, so that the regressor's seed fixes everything.

    Examples
    --------
    >>> select_law("auto", random_state=0)
    KernelLaw(bandwidth='cv', random_state=0)
    """
    made = KernelLaw(bandwidth="cv") if _is_auto(law) else make_law(law)
    if "random_state" in made.get_params() and made.random_state is None:
        made.set_params(random_state=random_state)
    return made


def _is_auto(law: Any) -> bool:
    return isinstance(law, str) and law == "auto"
