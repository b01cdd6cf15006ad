"""What holds in the SLCP paper, claim by claim, from the stores of the experiments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from localconformal.experiments import claims_ablations as ablations
from localconformal.experiments import claims_evidence as evidence
from localconformal.experiments import claims_lengths as lengths
from localconformal.experiments.claims_checks import NOT_JUDGED, NOT_RUN, Finding
from localconformal.experiments.claims_results import Results
from localconformal.experiments.presets import Preset
from localconformal.files import write_whole


@dataclass(frozen=True)
class Claim:
    """What the paper says, how it was put to the test, and the function that does it."""

    title: str
    said: str
    tested: str
    find: Callable[[Results], Finding]


#: In the order of the page; to add one, add it here.
CLAIMS = (
    Claim(
        "Shortest intervals at valid coverage",
        "SLCP generally has the shortest intervals among methods that reach the level.",
        "Lengths of SLCP against those of each other method on the same splits, on the nine exact "
        "data sets of Table 1 and on the simulations of Table 3, as 100 times the logarithm of "
        "their ratio: about per cent, below 0 where SLCP is shorter. Where methods cover unlike "
        "shares, the ratio is compared with that which normal errors would explain.",
        lengths.shortest,
    ),
    Claim(
        "Robust to misspecified models",
        "Where the base model is wrong, SLCP still adapts and CQR does not.",
        "SLCP against CQR on linear quantile regression of curved data and on small networks, with "
        "the median bandwidth that the paper describes.",
        evidence.misspecified,
    ),
    Claim(
        "Robust to misspecified models, with the bandwidth of the authors' code",
        "The same.",
        "The same with the bandwidth of the authors' code (median-log), which is narrower.",
        partial(evidence.misspecified, as_in_code=True),
    ),
    Claim(
        "Better conditional coverage",
        "SLCP comes nearer to the level at each x and in each group than other methods.",
        "The mean distance of the coverage at x from 90 %, which simulations know; on real data "
        "the coverage of groups, on test rows only. Smaller is better.",
        evidence.conditional,
    ),
    Claim(
        "Robust under covariate shift: loses less coverage than split and CQR",
        "Coverage of SLCP suffers less than that of split conformal and CQR when the law of x "
        "changes.",
        "Distance of the coverage from 90 % where test rows come from Beta laws.",
        evidence.shifted,
    ),
    Claim(
        "A mini-batch of 30 % is enough",
        "A law from 30 % of the training rows saves time and hardly changes the intervals.",
        "Lengths with 30 % against those with all rows.",
        ablations.minibatches,
    ),
    Claim(
        "The median bandwidth is best",
        "The median of the pairwise distances gives shorter intervals than other quantiles.",
        "Lengths with each other quantile against those with the median, on the same splits.",
        ablations.best_bandwidth,
    ),
    Claim(
        "Scales to deep embeddings",
        "On the embedding of a deep network, SLCP has by far the shortest intervals.",
        "Lengths on the age data, as in the first claim.",
        lengths.deep,
    ),
    Claim(
        "Asymptotic conditional coverage (Proposition 2), with a bandwidth that shrinks",
        "As rows are added, the coverage at each x tends to the level.",
        "The known distance of the coverage at x from 90 % over the number of rows, on data with "
        "one feature and with a bandwidth that shrinks, as the proof asks; the paper's, which does "
        "not, is beside it.",
        ablations.asymptotic,
    ),
    Claim(
        "No harm where there is nothing to localize",
        "Where scores do not depend on x, or come from the true quantiles, SLCP changes nothing, "
        "whatever the bandwidth.",
        "What a local law adds to the distance of the coverage at x from 90 %, with scores from "
        "the truth.",
        ablations.harmless,
    ),
    Claim(
        "Cheaper than LCP and CD-Split",
        "LCP and CD-Split require more extensive computation.",
        "Processor seconds beyond those of the shared base models, in all and for prediction "
        "alone, relative to SLCP's.",
        ablations.cheaper,
    ),
)


def find_all(results: Results) -> list[tuple[Claim, Finding]]:
    """Every claim with what was found; a preset that is too small judges none."""
    found = [(claim, claim.find(results)) for claim in CLAIMS]
    if not results.preset.only_runs:
        return found
    return [
        (claim, one if one.verdict == NOT_RUN else replace(one, verdict=NOT_JUDGED))
        for claim, one in found
    ]


def write_claims(folder: Path, preset: Preset, out: Path) -> Path:
    """Write the page "What holds in the SLCP paper" from the stores in a folder.

    Parameters
    ----------
    folder : Path
        Holds ``<experiment>.jsonl`` of the experiments that were run; it is only read. A claim
        whose experiments have no rows there is "not run".
    preset : Preset
        With which they were run.
    out : Path
        The page: Markdown for a name that ends in ``.md``, self-contained HTML for ``.html``.

    Returns
    -------
    Path
        ``out``.

    Examples
    --------
    >>> import tempfile
    >>> from localconformal.experiments import PRESETS
    >>> folder = Path(tempfile.mkdtemp())
    >>> page = write_claims(folder, PRESETS["standard"], folder / "paper.md").read_text()
    >>> page.splitlines()[0], page.count("not run") >= 7
    ('# What holds in the SLCP paper', True)
    """
    from localconformal.experiments.claims_page import PAGES

    if out.suffix not in PAGES:
        raise ValueError(
            f"out is {str(out)!r}; a name that ends in {' or '.join(PAGES)} was expected."
        )
    results = Results(folder, preset)
    text = PAGES[out.suffix](results, find_all(results))
    return write_whole(out, lambda part: part.write_text(text, encoding="utf-8"))
