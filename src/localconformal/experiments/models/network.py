"""The paper's network, for the mean and for quantiles; needs PyTorch and skorch.

As in the paper: d-64-64-out, ReLU, dropout 0.1, orthogonal first weights, Adam with weight decay
1e-6, early stopping on 5 % of the training rows, sorted quantiles. Otherwise: the step is ten
times the paper's and the batch four times, for a preset with a tenth of its epochs; quantile
networks too keep the epoch with the least loss, where the authors' code looks for the shortest
intervals that cover the 5 %, which picks epochs that cover them by chance; and the weights of that
epoch are kept, not trained again on all rows.
"""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models.family import Family, Unfitted
from localconformal.experiments.presets import Preset
from localconformal.laws import LearnedLaw
from localconformal.quantiles import Array
from localconformal.torch import missing_packages

LEVELS, LAW_LEVELS = (0.05, 0.5, 0.95), (0.05, 0.25, 0.5, 0.75, 0.95)
BATCH = 256


def why_left_out() -> str:
    """A sentence, where a package is missing; else nothing."""
    missing = " and ".join(missing_packages())
    return missing and (
        f"The neural network is left out: it needs {missing}, which pip install "
        "'localconformal[torch]' brings."
    )


def choose(X: Array, y: Array, seed: int, preset: Preset) -> Unfitted:
    """Nothing to choose but the epoch, which networks do whenever they are fitted.

    The conditional law is learned by a quantile network, so that methods that need one are those
    on a network too.
    """
    # Loads PyTorch: only once the family is used.
    from localconformal.torch import MeanNetwork, QuantileNetwork

    shared: dict[str, Any] = {
        "batch_size": BATCH,
        "max_epochs": preset.epochs,
        "random_state": seed,
    }
    mean = MeanNetwork(**shared)
    law = LearnedLaw(QuantileNetwork(LAW_LEVELS, **shared), LAW_LEVELS, n_jobs=1)
    return Unfitted(mean, QuantileNetwork(LEVELS, **shared), mean, law)


FAMILY = Family("neural_net", choose, why_left_out())
