"""Networks as regressors, and as places to measure "near".

Needs the extra ``torch`` (PyTorch and skorch). Names are imported when first used, so that the
module itself needs nothing beyond the core.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localconformal.torch.embedding import TorchEmbedding
    from localconformal.torch.mean import MeanNetwork
    from localconformal.torch.quantile import QuantileNetwork

_HOME_OF = {
    "MeanNetwork": "localconformal.torch.mean",
    "QuantileNetwork": "localconformal.torch.quantile",
    "TorchEmbedding": "localconformal.torch.embedding",
}
_NEEDED = ("torch", "skorch")

__all__ = ["MeanNetwork", "QuantileNetwork", "TorchEmbedding"]


def missing_packages() -> list[str]:
    """Those of PyTorch and skorch that are not installed; neither is loaded.

    Examples
    --------
    >>> set(missing_packages()) <= {"torch", "skorch"}
    True
    """
    return [name for name in _NEEDED if find_spec(name) is None]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'localconformal.torch' has no attribute {name!r}")
    if missing := missing_packages():
        raise ImportError(
            f"{name} needs {' and '.join(missing)}, which this environment lacks: run "
            "pip install 'localconformal[torch]'."
        )
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "missing_packages"]
