"""The appendix's first scenario: V independent of X."""

from localconformal.experiments.paper._scenarios import Scenario
from localconformal.experiments.paper._truth import HOMOSCEDASTIC, HOMOSCEDASTIC_ONE

EXPERIMENT = Scenario(
    title="Scores independent of x",
    score="residual",
    simulations=(HOMOSCEDASTIC_ONE, HOMOSCEDASTIC),
    said="the paper says that localization does no harm",
).experiment()
