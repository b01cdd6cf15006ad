"""Fit parameters on their way to the base models, by scikit-learn's metadata routing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn import get_config
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from localconformal.rows import models_given


class RoutingMixin:
    """A regressor that hands fit parameters to base models; it names none in its own ``fit``."""

    # Gives `set_fit_request(sample_weight=...)`, as a signature would.
    __metadata_request__fit = {"sample_weight": None}  # noqa: RUF012

    def get_metadata_routing(self) -> MetadataRouter:
        """Who takes which fit parameters, where scikit-learn's metadata routing is enabled.

        A base model of scikit-learn's kind gets what it requests itself, as in
        ``SLCPRegressor(LinearRegression().set_fit_request(sample_weight=True))``. For
        ``estimator=None``, and for models that cannot request anything, `set_fit_request` of
        this estimator decides.
        """
        own = super().get_metadata_routing()  # type: ignore[misc]
        requesters = _requesters(self)
        if requesters and own.fit.requests["sample_weight"] is None:
            # Nothing was said of the regressor: the word of the base model is enough.
            del own.fit.requests["sample_weight"]
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(own)
        return router.add(method_mapping=to_fit, **requesters)


def routed_params(regressor: Any, fit_params: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the base models get of the fit parameters: all of them where routing is not enabled."""
    if not (fit_params and get_config()["enable_metadata_routing"]):
        return fit_params
    routed = process_routing(regressor, "fit", **fit_params)
    requested = [dict(routed[name].fit) for name in _requesters(regressor)]
    if len({frozenset((name, id(value)) for name, value in one.items()) for one in requested}) > 1:
        raise ValueError(
            f"got base models that request {[sorted(each) for each in requested]} of fit, "
            "under these or other names; expected the same of each: set the same requests."
        )
    return requested[0] if requested else fit_params


def _requesters(regressor: Any) -> dict[str, Any]:
    """The base models that can request metadata, by name; none unless all of them can."""
    models = models_given(regressor.estimator)
    if not all(hasattr(model, "get_metadata_routing") for model in models):
        return {}
    return {f"estimator_{place}": model for place, model in enumerate(models)}
