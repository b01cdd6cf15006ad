"""Distances measured in a layer of a network; the extra ``torch`` is loaded when used."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localconformal.torch.embedding import TorchEmbedding

__all__ = ["TorchEmbedding"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'localconformal.torch' has no attribute {name!r}")
    if find_spec("torch") is None:
        raise ImportError(
            f"{name} needs PyTorch, which is not installed; run "
            "`pip install 'localconformal[torch]'`."
        )
    from localconformal.torch.embedding import TorchEmbedding

    return TorchEmbedding


def __dir__() -> list[str]:
    return list(__all__)
