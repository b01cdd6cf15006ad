"""What the paper says, each sentence judged by lines of the tables, so that the two agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.harness import CANNOT, EQUAL, NOT_REPRODUCED, OURS, REPRODUCED, UNDECIDED, Line
from paper.ablations import ADVISED, AS_IN_CODE, CAPACITY_SIZES, LARGE, LONGER, MEDIAN, TINY_SHARE
from paper.age import END_TO_END, YEARS
from paper.claims import ADDITIVE, SCENARIOS_LAWS
from paper.costs import ON_MEANS, ON_QUANTILES, REFITTED, SLOWER
from paper.simulations import CODE, FIGURES
from paper.tables import (
    BEST_ON_NETWORK,
    GAP,
    GROUP_GAP,
    HIGHER,
    NO_MODEL,
    ON_EQUAL,
    TABLE1_COMPARED,
    TOO_MUCH,
    UNPROMISED,
)
from paper.verdicts import LOG_RATIO, NO_VALUE, directed, printed

HOLDS, IN_PART, FAILS, NOT_RUN = "holds", "holds in part", "does not hold", "not all run yet"
CLAIM_VERDICTS = (HOLDS, IN_PART, FAILS, UNDECIDED, CANNOT, NOT_RUN)


class Pick(NamedTuple):
    """Lines of an experiment whose fields have one of these values each."""

    experiment: str
    fields: Mapping[str, tuple[str, ...]]

    def of(self, lines: list[Line]) -> list[Line]:
        """Those among the lines; what the paper does not say is no evidence."""
        return [
            line
            for line in lines
            if line.verdict != OURS
            and all(line.of.get(name) in values for name, values in self.fields.items())
        ]


def pick(experiment: str, **fields: str | tuple[str, ...]) -> Pick:
    """A pick, with one value or several of each field."""
    several = {k: (v,) if isinstance(v, str) else v for k, v in fields.items()}
    return Pick(experiment, several)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the lines that judge it.

    ``always``: it is a claim to be the best or to hold always, which one line refutes.
    """

    title: str
    said: str
    picks: tuple[Pick, ...]
    always: bool = False
    beside: str = ""


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the lines behind it, by experiment."""

    claim: Claim
    verdict: str
    lines: list[tuple[str, Line]]

    @property
    def counts(self) -> Counter[str]:
        """How many lines have each verdict."""
        return Counter(line.verdict for _, line in self.lines)


def judge(claim: Claim, lines: Mapping[str, list[Line]]) -> Judged:
    """The claim, judged by what each experiment says."""
    found = [
        (one.experiment, line)
        for one in claim.picks
        for line in one.of(lines.get(one.experiment, []))
    ]
    # Half of the evidence is no verdict; what will not be run has a reason of its own.
    if any(line.reason == NO_VALUE for _, line in found):
        return Judged(claim, NOT_RUN, found)
    counts = Counter(line.verdict for _, line in found)
    return Judged(claim, claim_verdict(counts, claim.always), found)


def claim_verdict(counts: Mapping[str, int], always: bool = False) -> str:
    """It holds if every line that can be compared is for it, and in part if most are.

    It does not hold if most are against it or show no difference; a claim to be the best, or to
    hold always, does not if any is against it.

    Examples
    --------
    >>> claim_verdict({"reproduced": 3}), claim_verdict({"reproduced": 2, "undecided": 1})
    ('holds', 'holds in part')
    >>> claim_verdict({"reproduced": 3, "not reproduced": 1}, always=True)
    'does not hold'
    >>> claim_verdict({"undecided": 2, "reproduced": 1}), claim_verdict({"cannot be compared": 1})
    ('undecided', 'cannot be compared')
    """
    for_it, against = counts.get(REPRODUCED, 0), counts.get(NOT_REPRODUCED, 0)
    equal = counts.get(EQUAL, 0)
    total = for_it + against + equal + counts.get(UNDECIDED, 0)
    if not total:
        return CANNOT
    if for_it == total:
        return HOLDS
    if always and against:
        return FAILS
    if 2 * for_it > total:
        return IN_PART
    return FAILS if 2 * (against + equal) > total else UNDECIDED


SHORTER, SLCP_LONGER = directed(LOG_RATIO, "shorter"), directed(LOG_RATIO, "longer")
THAN_MEDIAN = directed(LONGER, "longer")
MEAN, TREES, WRONG = (
    FIGURES[name].title for name in ("forest_mean", "quantile_forest", "misspecified")
)
SMALL = tuple(str(size) for size in CAPACITY_SIZES if size <= LARGE)
BIG = tuple(str(size) for size in CAPACITY_SIZES if size > LARGE)
OTHER_LAWS = tuple(name for name in list(SCENARIOS_LAWS)[1:] if name != "median")
FIRST, BEST = (
    tuple(f"{first} / {other}" for other in (*TABLE1_COMPARED, *UNPROMISED))
    for first in ("SLCP", BEST_ON_NETWORK)
)
OTHER_SPLITS = tuple(f"SLCP / {other}" for other in ("DistSplit", "CQR", "MADSplit"))
IN_SAMPLE = (
    "SLCP and CQR are built on quantile models, all other methods on models of the mean. SLCP's "
    "reference scores are in sample here, as in the paper; those of LCP, MADSplit, DistSplit and "
    "CDSplit are out of fold. The comparison on mean models and equal residuals is a claim of its "
    "own."
)


def misspecified(reading: str, code: str) -> tuple[Pick, ...]:
    """Linear quantile models of curved data, and small networks."""
    slcp = f"SLCP{code}"
    return (
        pick("simulations", figure=WRONG, method=f"{slcp} / CQR", quantity=SHORTER),
        pick("simulations", figure=WRONG, method=f"{slcp} - CQR", quantity=GAP),
        pick("capacity", method=reading, quantity="longer than CQR, %", **{"hidden size": SMALL}),
    )


def shift(reading: str) -> tuple[Pick, ...]:
    """Against split conformal and CQR, under all shifts together and two of them."""
    return (pick("covariate_shift", method=(f"{reading} - split", f"{reading} - CQR")),)


def own_table_differs() -> str:
    """Where the paper's own lengths on images contradict its sentence about the median."""
    table = printed()["table_bandwidth"]
    lengths = dict(zip(table["quantile"], table["age_length"], strict=True))
    shorter = [f"{q:g} ({length:g})" for q, length in lengths.items() if length < lengths[0.5]]
    return (
        f"On images the paper's own table has a shorter length than the median's ({lengths[0.5]:g} "
        f"years) at quantile {' and '.join(shorter)}."
        if shorter
        else ""
    )


CLAIMS = (
    Claim(
        "Shortest intervals",
        "SLCP (quantile estimator) generally obtains the shortest intervals on real data (5.3).",
        (pick("table1", method=FIRST, quantity=SHORTER),),
        beside=IN_SAMPLE,
    ),
    Claim(
        "Shortest intervals, on equal residuals",
        "The same, with SLCP and the other method on the same model of the mean, and on residuals "
        "of one kind: both out of fold, or both in sample.",
        (pick("table1", quantity=ON_EQUAL),),
    ),
    Claim(
        "Better than other split methods",
        "SLCP performs better than Dist-Split, CQR and MADSplit, which split their rows too (5.3).",
        (pick("table1", method=OTHER_SPLITS, quantity=SHORTER),),
        beside=IN_SAMPLE,
    ),
    Claim(
        "CD-Split is competitive on forests",
        "CD-Split achieves competitive performance, particularly on random forests (5.3), where "
        "Table 1 has it shorter than SLCP.",
        (pick("table1", model="random_forest", method="SLCP / CDSplit", quantity=SLCP_LONGER),),
        beside=IN_SAMPLE,
    ),
    Claim(
        "CQR is the best other method on networks",
        "CQR combined with neural networks is superior to other baselines (5.3).",
        (pick("table1", method=BEST, quantity=SHORTER),),
        beside=IN_SAMPLE,
    ),
    Claim(
        "LVD is over-conservative",
        "LVD's results tend to be over-conservative (4, 5.3).",
        (pick("table1", quantity=TOO_MUCH),),
    ),
    Claim(
        "Better on heteroscedastic data",
        "SLCP can achieve better results on heteroscedastic data (5.2, Table 3).",
        (pick("table3", simulation="heteroscedastic", quantity=SHORTER),),
        beside=IN_SAMPLE,
    ),
    Claim(
        "Near CD-Split on bimodal data",
        "SLCP closely approaches the results of CD-Split on bimodal data (5.2, Table 3).",
        (pick("table3", simulation="bimodal", method="SLCP / CDSplit", quantity=LOG_RATIO),),
    ),
    Claim(
        "Good without a model",
        "Even without any regression model (V = Y), SLCP achieves a good performance (3.4).",
        (pick("table1", method=f"{NO_MODEL} / SLCP", quantity=LOG_RATIO),),
    ),
    Claim(
        "Better conditional coverage by correlation",
        "SLCP's higher Pearson correlation shows better conditional coverage (5.4, Table 1).",
        (pick("table1", quantity=HIGHER),),
        beside="The correlation is that of length and error, which the printed numbers fit. The "
        "paper names that of length and coverage, which is 0 for a perfect method.",
    ),
    Claim(
        "Better conditional coverage by known coverage and by group",
        "SLCP approximates conditional coverage better than other methods (abstract, 5.4).",
        (
            pick("table3", quantity=GAP),
            *(pick(name, quantity=GROUP_GAP) for name in ("star", "bike", "meps21")),
        ),
        beside=IN_SAMPLE,
    ),
    Claim(
        "Shorter than split conformal by adapting",
        "On a forest of the mean, SLCP's intervals adapt and are shorter than those of split "
        "conformal prediction (5.2, appendix F).",
        (
            pick("simulations", figure=MEAN, method="SLCP-mean / split", quantity=SHORTER),
            pick("simulations", figure=MEAN, method="SLCP-mean - split", quantity=GAP),
        ),
    ),
    Claim(
        "Like CQR on a good quantile model",
        "On a quantile forest, SLCP gives almost the same results as CQR (appendix F).",
        (pick("simulations", figure=TREES, method="SLCP / CQR", quantity=LOG_RATIO),),
    ),
    Claim(
        "Robust to misspecified models",
        "Where the model is wrong, SLCP still adapts, and CQR does not (5.2, appendices D and F).",
        misspecified("SLCP", ""),
    ),
    Claim(
        "Robust to misspecified models, with the bandwidth of the authors' code",
        "The same; the authors' code has a narrower bandwidth (median-log) than the paper.",
        misspecified(AS_IN_CODE, f" {CODE}"),
    ),
    Claim(
        "Like CQR on large networks",
        f"Above a hidden size of {LARGE}, CQR has almost no difference with SLCP (appendix D).",
        (pick("capacity", method="SLCP", quantity="longer than CQR, %", **{"hidden size": BIG}),),
    ),
    Claim(
        "Shorter than split conformal on networks",
        "Split conformal prediction is longer in general (appendix D).",
        (pick("capacity", method="SLCP", quantity="longer than split, %"),),
    ),
    Claim(
        "Robust under covariate shift",
        "SLCP is more robust to covariate shift than split conformal and CQR (appendix D).",
        shift("SLCP"),
    ),
    Claim(
        "Robust under covariate shift, with the bandwidth of the authors' code",
        "The same with the narrower bandwidth.",
        shift(AS_IN_CODE),
    ),
    Claim(
        f"A mini-batch of {ADVISED} % is enough",
        f"{ADVISED} % of the training rows do not hamper the intervals too much (appendix D).",
        (
            pick(
                "minibatch",
                quantity="longer than with all rows, %",
                **{"share of rows": f"{ADVISED} %"},
            ),
        ),
    ),
    Claim(
        "A very small mini-batch is not enough",
        "A batch below 10 % leads to an obvious drop in performance (appendix D).",
        (
            pick(
                "minibatch",
                quantity="longer than with all rows, %",
                **{"share of rows": f"{TINY_SHARE} %"},
            ),
        ),
    ),
    Claim(
        "A mini-batch saves time as printed",
        "Run times relative to that with 10 % (Table of mini-batches).",
        (pick("minibatch", quantity="run time relative to 10 %"),),
    ),
    Claim(
        "Linear cost at a fixed batch",
        "The law costs O(training x calibration rows), and with a fixed batch it is linear (3.4).",
        (pick("batch_cost"),),
    ),
    Claim(
        "The median bandwidth is best",
        "The median leads to better results than all other quantiles, on tables and images "
        "(appendix D).",
        (
            pick("bandwidth", quantity=THAN_MEDIAN),
            pick("age", quantity=directed(f"longer than with {MEDIAN}, %", "longer")),
        ),
        always=True,
        beside=own_table_differs(),
    ),
    Claim(
        "By far the shortest on images",
        "SLCP provides the most precise intervals on the age data (5.3, Table 2).",
        (pick("age", quantity=SHORTER),),
    ),
    Claim(
        "CQR suffers from its loss on images",
        "CQR is sub-optimal because deep networks train badly with the quantile loss (5.3).",
        (pick("age", variant=END_TO_END, quantity=YEARS),),
        beside="What we found with a network trained with the quantile loss is below Table 2.",
    ),
    Claim(
        "Average coverage (Proposition 1)",
        "SLCP covers with the level that is asked for (3.2).",
        (
            pick("levels", method=(ON_MEANS, ON_QUANTILES), quantity="coverage, %"),
            pick("score_functions", quantity="coverage, %", **{"score function": ADDITIVE}),
        ),
        always=True,
    ),
    Claim(
        "Asymptotic conditional coverage (Proposition 2), as the bandwidth shrinks",
        "As rows are added, the coverage at each x tends to the level (3.2, appendix A).",
        (pick("proposition2"),),
        beside="Judged with a bandwidth that shrinks, as the proof asks; the paper's median does "
        "not.",
    ),
    Claim(
        "The generalised theorem",
        "Any monotone score function covers with the level (3.3, appendix B).",
        (pick("score_functions", quantity="coverage, %"),),
        always=True,
    ),
    Claim(
        "No harm where scores do not depend on x",
        "SLCP does not hurt independence, whatever the kernel or bandwidth (appendix C): with the "
        "paper's median bandwidth.",
        (pick("independent_scores", law="median"),),
        always=True,
    ),
    Claim(
        "No harm where scores do not depend on x, with other bandwidths",
        "The same with narrower bandwidths.",
        (pick("independent_scores", law=OTHER_LAWS),),
        always=True,
    ),
    Claim(
        "No harm with the true quantiles",
        "With residuals from the true quantiles the local quantile is 0 (appendix C): with the "
        "paper's median bandwidth.",
        (pick("true_quantiles", law="median"),),
        always=True,
    ),
    Claim(
        "No harm with the true quantiles, with other bandwidths",
        "The same with narrower bandwidths.",
        (pick("true_quantiles", law=OTHER_LAWS),),
        always=True,
    ),
    Claim(
        "Cheaper than LCP and CD-Split",
        "LCP and CD-Split require more extensive computation (5.2).",
        (pick("run_time", method=SLOWER),),
    ),
    Claim(
        "No new model for a new level, and less time",
        "SLCP does not need to train a new model for another level, and CQR does (4).",
        (pick("levels", quantity=f"seconds relative to {REFITTED}"),),
        beside="Judged by processor seconds for five levels. A quantile forest answers every level "
        "from one fit, so that CQR needs no new model there either.",
    ),
)
