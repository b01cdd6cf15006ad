"""Split Localized Conformal Prediction."""

from __future__ import annotations

from inspect import getdoc

from localconformal.regressors.localized import LocalizedConformalRegressor


class SLCPRegressor(LocalizedConformalRegressor):
    """Split Localized Conformal Prediction: residuals, a local law, the additive quantile.

    With V1 = y - mu(x), V2 = mu(x) - y and F1, F2 their local laws at x,

        s_i = max_k (V_k - Q(1 - alpha / 2; F_k)) over calibration rows,  d = cq(1 - alpha; s),
        C(x) = [mu(x) - Q(1 - alpha / 2; F2) - d,  mu(x) + Q(1 - alpha / 2; F1) + d].

    With ``law="auto"`` d may count local widths instead, where that scores better.

    The general composition `LocalizedConformalRegressor` with SLCP's defaults. The paper's exact
    method is
    ``SLCPRegressor(est, law=KernelLaw("gaussian", bandwidth="median"), reference="train",
    sides="union")``.

    References
    ----------
    Han, Tang, Ghosh and Liu, "Split Localized Conformal Prediction", arXiv:2206.13092.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(160, 1))
    >>> y = X[:, 0] + X[:, 0] * rng.normal(size=160)
    >>> model = SLCPRegressor(LinearRegression(), confidence_level=0.9, random_state=0).fit(X, y)
    >>> model.predict_interval([[0.1], [0.9]]).shape
    (2, 2)
    >>> model.predict_interval([[0.1], [0.9]], confidence_level=[0.5, 0.8, 0.95]).shape
    (2, 2, 3)
    """


def _told_like(cls: type, general: type) -> None:
    """Give a class the sections about parameters and attributes of the one that has them."""
    # Without the indentation, which some versions of Python take away themselves; none with -OO.
    own, other = getdoc(cls) or "", getdoc(general) or ""
    _, heading, told = other.partition("Parameters\n")
    sections = heading + told.partition("Examples\n")[0]
    cls.__doc__ = own.replace("References\n", f"{sections}References\n")


_told_like(SLCPRegressor, LocalizedConformalRegressor)
