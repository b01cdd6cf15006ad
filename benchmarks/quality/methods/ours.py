"""Our own: one regressor and its laws."""

from functools import partial

from benchmarks.harness import LEVEL
from benchmarks.quality.methods.models import point_model
from localconformal import (
    ForestLaw,
    KernelLaw,
    LearnedLaw,
    ScaledLaw,
    ShiftedLaw,
    SLCPRegressor,
)

#: Name -> what ``law=`` is given; a function makes an object, so that runs share none.
LAWS = {
    "auto": lambda: "auto",
    "forest": lambda: "forest",
    "learned": lambda: "learned",
    "kernel-median": lambda: KernelLaw(),
    "kernel-cv": lambda: KernelLaw(bandwidth="cv"),
    "kernel-outputs": lambda: KernelLaw(bandwidth="cv", embedding="outputs-spread"),
    "neighbors": lambda: "neighbors",
    "split": lambda: "uniform",
    "spread": lambda: ScaledLaw(),
    "blend-spread": lambda: ShiftedLaw(ScaledLaw()),
    "blend-forest": lambda: ShiftedLaw(ForestLaw()),
    "blend-learned": lambda: ShiftedLaw(LearnedLaw()),
}
#: Laws of one kind whose correction is in local widths, as auto's mostly is.
SCALED = {"spread", "blend-spread", "blend-forest", "blend-learned"}


def slcp(split, base, seed, law):
    model = SLCPRegressor(
        point_model(base, seed),
        law=LAWS[law](),
        adjustment="scaled" if law in SCALED else "additive",
        confidence_level=LEVEL,
        calibration_size=None,
        random_state=seed,
        n_jobs=1,
    )
    model.fit(split.train.X, split.train.y)
    return model.conformalize(split.calibration.X, split.calibration.y)


METHODS = {name: partial(slcp, law=name) for name in LAWS}
