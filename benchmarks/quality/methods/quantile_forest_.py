"""quantile-forest, conformalised as CQR: it has no calibration of its own."""

import numpy as np

from benchmarks.harness import LEVEL
from benchmarks.quality.methods.models import Fitted


def quantile_forest(split, base, seed):
    """A forest under either base. All samples of a leaf count: its default keeps one of them."""
    from quantile_forest import RandomForestQuantileRegressor

    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    forest = RandomForestQuantileRegressor(
        min_samples_leaf=5, max_samples_leaf=None, random_state=seed, n_jobs=1
    )
    forest.fit(split.train.X, split.train.y)
    y, bounds = split.calibration.y, forest.predict(split.calibration.X, quantiles=tails)
    scores = np.sort(np.maximum(bounds[:, 0] - y, y - bounds[:, 1]))
    rank = int(np.ceil((len(y) + 1) * LEVEL))
    correction = scores[rank - 1] if rank <= len(y) else np.inf
    shift = correction * np.array([-1.0, 1.0])
    return Fitted(lambda X: forest.predict(X, quantiles=tails) + shift)


METHODS = {"quantile-forest": quantile_forest}
