"""What the search compares: laws of different kinds, on the residual of the point model or of a
blend of several, with the correction added as it is or in local widths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from localconformal.laws import (
    BaseLaw,
    ForestLaw,
    KernelLaw,
    LearnedLaw,
    ResponseLaw,
    ScaledLaw,
    UniformLaw,
    seeded,
)
from localconformal.laws.blend_models import default_models
from localconformal.laws.forest import TREES, default_forest
from localconformal.parallel import asked_jobs
from localconformal.quantiles import Array

#: Columns beyond which distances between features say nothing.
FEW_COLUMNS = 10
#: Columns beyond which boosting, and forests that look at all of them, take their time.
WIDE = 60
#: Bandwidth on the standardised (mu, sigma): local, with hundreds of rows near most points.
OUTPUTS_BANDWIDTH = 0.2


def candidate_laws(
    levels: Array,
    residual: bool,
    n_features: int,
    seed: int,
    n_jobs: int | None,
    share_of_trees: float = 1.0,
) -> dict[str, BaseLaw]:
    """Unfitted laws by name; ``residual`` says that the response can be told from the score."""
    grow = Grow(share_of_trees, seed, n_jobs)
    curves = tuple(sorted({0.25, 0.5, 0.75, *levels.tolist()}))
    laws: dict[str, BaseLaw] = {
        "uniform": UniformLaw(),
        "spread": ScaledLaw(),
        "spread x forest": ScaledLaw(ForestLaw(grow.fine())),
        "learned": LearnedLaw(levels=curves),
        "outputs": KernelLaw(bandwidth=OUTPUTS_BANDWIDTH, embedding="outputs-spread"),
    }
    if n_features <= WIDE:
        laws["spread x learned"] = ScaledLaw(LearnedLaw(levels=curves))
        laws["coarse forest"] = ForestLaw(grow.coarse())
    if n_features <= FEW_COLUMNS:
        laws["features"] = KernelLaw(bandwidth="cv")
    if residual and n_features <= WIDE:
        laws["response learned"] = ResponseLaw(LearnedLaw(levels=curves))
    if residual:
        laws["response forest"] = ResponseLaw(ForestLaw(grow.extra(), target="response"))
    return {name: seeded(law, seed, n_jobs) for name, law in laws.items()}


def blend_models(n_features: int, seed: int) -> dict[str, Any]:
    """Point models of the blend; boosting takes too long on wide tables."""
    left_out = {"boosting"} if n_features > WIDE else set()
    return {name: m for name, m in default_models(seed).items() if name not in left_out}


@dataclass(frozen=True)
class Grow:
    """Unfitted forests of this share of their trees."""

    share: float
    seed: int
    n_jobs: int | None

    def fine(self) -> RandomForestRegressor | None:
        """A forest law's own; None is all of it, grown as its number of rows asks."""
        if self.share == 1.0:
            return None
        return default_forest(0, self.seed, self.n_jobs, round(self.share * TREES))

    def coarse(self) -> RandomForestRegressor:
        """Large leaves and all columns at each split: for noise that depends smoothly on a few."""
        return self._set(RandomForestRegressor(50, min_samples_leaf=20))

    def extra(self) -> ExtraTreesRegressor:
        """Trees of another kind than the forest law's own."""
        return self._set(ExtraTreesRegressor(100, min_samples_leaf=5, max_features=0.7))

    def _set(self, forest: Any) -> Any:
        return forest.set_params(
            n_estimators=round(self.share * forest.n_estimators),
            n_jobs=asked_jobs(self.n_jobs),
            random_state=self.seed,
        )
