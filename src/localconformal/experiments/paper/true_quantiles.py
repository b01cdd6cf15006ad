"""The appendix's second scenario: V is the distance from the true quantiles."""

from localconformal.experiments.paper._scenarios import Scenario
from localconformal.experiments.paper._simulated import SIMULATIONS

EXPERIMENT = Scenario(
    title="Scores from the true quantiles",
    score="quantile",
    simulations=SIMULATIONS,
    said="the paper says that the local quantile is about 0",
).experiment()
