"""The page of claims: verdicts from rows, numbers from rows, and nothing where nothing was run."""

import re
from dataclasses import asdict, replace
from html.parser import HTMLParser

import numpy as np
import pytest

from localconformal.experiments import PRESETS, load_experiment
from localconformal.experiments.claims import CLAIMS, find_all, write_claims
from localconformal.experiments.claims_ablations import (
    asymptotic,
    best_bandwidth,
    harmless,
    minibatches,
)
from localconformal.experiments.claims_checks import (
    AGAINST,
    FOR,
    UNCLEAR,
    UNFAIR,
    decided,
    judge,
    less,
    more,
)
from localconformal.experiments.claims_evidence import (
    conditional,
    group_gaps,
    misspecified,
    shifted,
)
from localconformal.experiments.claims_lengths import shortest
from localconformal.experiments.claims_results import Results
from localconformal.experiments.claims_words import say
from localconformal.experiments.paper import proposition2, table1
from localconformal.experiments.paper._scenarios import LAWS
from localconformal.experiments.store import Store, decode, encode
from localconformal.experiments.summary import Mean

STANDARD, SMOKE = PRESETS["standard"], PRESETS["smoke"]
#: Large enough for verdicts, with few rows to store.
FEW = replace(STANDARD, repeats=4, datasets=("concrete", "yacht"))


def store_rows(folder, name, make, preset=FEW):
    """A store as a run leaves it: ``make(case, rng)`` gives the rows of each task."""
    experiment = load_experiment(name)
    about = {"experiment": name, "version": experiment.version, "preset": asdict(preset)}
    store = Store(folder / f"{name}.jsonl", about, print)
    rng = np.random.default_rng(0)
    for case in experiment.cases(preset):
        store.append({"case": case, "rows": make(case, rng), "seconds": 1.0, "error": None})
    return Results(folder, preset)


def jitter(rng, value, size=0.001):
    return float(value + size * rng.normal())


def table1_rows(lengths):
    def make(case, rng):
        return [
            {
                "method": method,
                "length": jitter(rng, length),
                "coverage": jitter(rng, 0.9, 0.01),
                "length_coverage_corr": jitter(rng, 0.1),
                "n_calibration": 500,
                "n_test": 500,
            }
            for method, length in lengths.items()
        ]

    return make


ALIKE = dict.fromkeys(("CQR", "LCP", "MADSplit", "DistSplit", "CDSplit", "split"), 2.0)


@pytest.mark.parametrize(
    ("slcp", "cqr", "verdict"),
    [(1.0, 2.0, "holds"), (3.0, 2.0, "does not hold"), (1.0, 0.5, "does not hold")],
)
def test_the_shortest_is_shorter_than_every_other(tmp_path, slcp, cqr, verdict):
    lengths = {**ALIKE, "SLCP": slcp, "CQR": cqr, "SLCP-auto": slcp - 0.25}
    found = shortest(store_rows(tmp_path, "table1", table1_rows(lengths)))
    assert found.verdict == verdict
    said = " ".join(found.sentences)
    assert f"SLCP is {slcp:.2f} ±" in said
    ratio = float(re.search(r"data sets is (-[\d.]+) ± [\d.]+ on ridge", said)[1])
    assert ratio == pytest.approx(100 * np.log((slcp - 0.25) / slcp), abs=0.5)


def test_every_number_of_a_sentence_follows_the_rows(tmp_path):
    """The same sentences with other rows have other numbers."""
    pages = []
    for length in (1.0, 1.5):
        folder = tmp_path / str(length)
        lengths = {**ALIKE, "SLCP": length, "SLCP-auto": length * 0.9}
        pages.append(shortest(store_rows(folder, "table1", table1_rows(lengths))).sentences)
    words = [[re.sub(r"[\d.+-]+", "#", line) for line in page] for page in pages]
    assert words[0] == words[1]
    assert pages[0] != pages[1]


def shift_rows(gaps):
    def make(case, rng):
        return [
            {"method": method, "dataset": place, "gap": jitter(rng, gap), "coverage": 0.9 - gap}
            for place in ("a = 0.01", "a = 0.5", "a = 1")
            for method, gap in gaps.items()
        ]

    return make


def test_a_shift_that_hurts_slcp_more_is_against_it(tmp_path):
    gaps = {"split": 0.1, "CQR": 0.05, "SLCP": 0.2, "SLCP-auto": 0.01}
    found = shifted(store_rows(tmp_path, "covariate_shift", shift_rows(gaps)))
    assert found.verdict == "does not hold"
    assert "SLCP 70.0 %" in " ".join(found.sentences)


def simulation_rows(slcp, code):
    def make(case, rng):
        lengths = {"CQR": 2.0, "SLCP": slcp, "SLCP median-log": code, "SLCP-auto": 1.1}
        return [
            {"method": m, "length": jitter(rng, v), "conditional_gap": jitter(rng, v / 20)}
            for m, v in lengths.items()
        ]

    return make


def test_the_bandwidth_of_the_text_and_of_the_code_are_told_apart(tmp_path):
    results = store_rows(tmp_path, "simulations", simulation_rows(2.0, 1.5))
    assert misspecified(results).verdict == "not shown"
    assert misspecified(results, as_in_code=True).verdict == "holds"


def test_conditional_coverage_is_judged_by_simulations_and_groups(tmp_path):
    def make(case, rng):
        return [
            {"method": method, "group": group, "n": n, "coverage": jitter(rng, 0.9 - gap, 1e-4)}
            for method, gap in {"SLCP": 0.01, "CQR": 0.05, "SLCP-auto": 0.0}.items()
            for group, n in (("overall", 500), ("1", 300), ("2", 190), ("3", 10))
        ]

    found = conditional(store_rows(tmp_path, "bike", make))
    assert found.verdict == "holds"
    assert {check.where for check in found.checks} == {"bike"}


def test_groups_count_by_their_rows_and_small_ones_not_at_all():
    rows = [
        {"method": "a", "repeat": 0, "group": group, "n": n, "coverage": coverage}
        for group, n, coverage in (
            ("overall", 1_000, 0.0),
            ("1", 300, 0.8),
            ("2", 100, 0.9),
            ("3", 5, 0.0),
        )
    ]
    assert group_gaps(rows) == [{"method": "a", "repeat": 0, "gap": pytest.approx(0.075)}]


def test_the_true_quantiles_are_no_law_that_does_no_harm(tmp_path):
    def make(case, rng):
        gaps = {**dict.fromkeys(LAWS, 0.05), "true quantiles": 0.0}
        return [{"method": m, "conditional_gap": jitter(rng, gap)} for m, gap in gaps.items()]

    found = harmless(store_rows(tmp_path, "independent_scores", make))
    assert found.checks
    assert not [check.where for check in found.checks if "true quantiles" in check.where]


def test_a_mini_batch_is_enough_if_lengths_are_within_what_is_tolerated(tmp_path):
    def make(case, rng):
        return [
            {
                "method": "SLCP-RBF",
                "percent": percent,
                "length": jitter(rng, length),
                "law_seconds": percent / 100,
            }
            for percent, length in ((30, 1.02), (100, 1.0))
        ]

    found = minibatches(store_rows(tmp_path, "minibatch", make))
    assert found.verdict == "holds"
    assert "takes 0.30 ± 0.00 of the time" in " ".join(found.sentences)


def test_a_bandwidth_that_is_better_than_the_median_is_against_it(tmp_path):
    def make(case, rng):
        lengths = {"quantile 0.1": 0.5, "quantile 0.5": 1.0, "median-log": 0.7, "SLCP-auto": 0.4}
        return [{"method": m, "length": jitter(rng, v)} for m, v in lengths.items()]

    found = best_bandwidth(store_rows(tmp_path, "bandwidth", make))
    assert found.verdict == "does not hold"
    assert "median-log -30" in " ".join(found.sentences)


def test_the_proposition_holds_with_a_rate_and_not_with_the_median(tmp_path):
    def make(case, rng):
        n = case["size"]
        gaps = {"median": 0.07, "rate": n**-0.33, "no local law": 0.1}
        return [
            {"method": law, "conditional_gap": gap * jitter(rng, 1.0)} for law, gap in gaps.items()
        ]

    found = asymptotic(store_rows(tmp_path, "proposition2", make))
    assert found.verdict == "holds"
    assert [check.where for check in found.checks] == ["sim2, rate"]
    said = " ".join(found.sentences)
    assert f"to {proposition2.SIZES[-1]}" in said
    assert said.count("outside the proposition") == 2


def test_what_was_not_run_says_so(tmp_path):
    found = find_all(Results(tmp_path, STANDARD))
    assert len(found) == len(CLAIMS) >= 7
    assert {one.verdict for _, one in found} == {"not run"}


def test_a_preset_that_only_runs_judges_nothing(tmp_path):
    lengths = {**ALIKE, "SLCP": 1.0, "SLCP-auto": 1.0}
    results = store_rows(tmp_path, "table1", table1_rows(lengths), SMOKE)
    assert {one.verdict for _, one in find_all(results)} == {"not run", "not judged"}


def test_rows_of_another_preset_or_version_are_not_used(tmp_path):
    lengths = {**ALIKE, "SLCP": 1.0, "SLCP-auto": 1.0}
    store_rows(tmp_path, "table1", table1_rows(lengths))
    before = (tmp_path / "table1.jsonl").read_bytes()
    assert Results(tmp_path, STANDARD).rows("table1") == []
    assert Results(tmp_path, FEW).rows("table1")
    assert Results(tmp_path, FEW).rows("no such experiment") == []
    # Reading leaves the folder as it was.
    assert [path.name for path in tmp_path.iterdir()] == ["table1.jsonl"]
    assert (tmp_path / "table1.jsonl").read_bytes() == before


def test_a_line_cut_short_or_spoilt_is_passed_over(tmp_path):
    lengths = {**ALIKE, "SLCP": 1.0, "SLCP-auto": 1.0}
    whole = len(store_rows(tmp_path, "table1", table1_rows(lengths)).records("table1"))
    path = tmp_path / "table1.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert len(Results(tmp_path, FEW).records("table1")) == whole - 1


@pytest.mark.parametrize("change", [{"format_version": 2}, {"format": "another"}, None])
def test_a_store_of_another_format_is_refused(tmp_path, change):
    store_rows(tmp_path, "table1", table1_rows({**ALIKE, "SLCP": 1.0, "SLCP-auto": 1.0}))
    path = tmp_path / "table1.jsonl"
    head, _, lines = path.read_bytes().partition(b"\n")
    other = b"no store\n" if change is None else encode({**decode(head), **change})
    path.write_bytes(other + lines)
    with pytest.raises(ValueError, match=r"table1.jsonl is not a store of format version 1"):
        Results(tmp_path, FEW).rows("table1")


class Outline(HTMLParser):
    """Which elements there are, and whether they close in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.links, self.ids = [], [], [], []

    def handle_starttag(self, name, attributes):
        known = dict(attributes)
        self.seen.append(name)
        self.links += [known["href"]] if "href" in known else []
        self.ids += [known["id"]] if "id" in known else []
        if name != "meta":
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name


@pytest.mark.slow
def test_the_page_is_whole_in_both_forms(tmp_path):
    lengths = {**ALIKE, "SLCP": 1.0, "SLCP-auto": 0.9}
    store_rows(tmp_path, "table1", table1_rows(lengths))
    page = write_claims(tmp_path, FEW, tmp_path / "made" / "paper.html")
    assert page == tmp_path / "made" / "paper.html"
    text = page.read_text(encoding="utf-8")
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    assert "script" not in outline.seen
    assert "http://" not in text
    assert "https://" not in text
    assert {link.removeprefix("#") for link in outline.links} <= set(outline.ids)
    markdown = write_claims(tmp_path, FEW, tmp_path / "paper.md").read_text(encoding="utf-8")
    for claim in CLAIMS:
        assert f"## {claim.title}\n" in markdown
    assert "**Holds.**" in markdown
    assert markdown.count("**Not run.**") >= 6
    table = [
        line for line in markdown.splitlines() if line.startswith(("| experiment |", "| table1 "))
    ]
    assert len(table) == 2
    assert len({line.count("|") for line in table}) == 1


def test_a_name_of_another_ending_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.md or \.html"):
        write_claims(tmp_path, STANDARD, tmp_path / "paper.pdf")


def outcome_of(checks):
    return decided(checks)[0].outcome


def test_a_check_is_decided_beyond_chance_only():
    clear, vague, single = Mean(-1.0, 0.1, 5), Mean(-1.0, 0.9, 5), Mean(-1.0, None, 1)
    assert [outcome_of(less("a", "b", mean)) for mean in (clear, vague, single)] == [
        FOR,
        UNCLEAR,
        UNCLEAR,
    ]
    assert outcome_of(more("a", "b", clear)) == AGAINST
    assert less("a", "b", None) == []
    assert outcome_of(less("a", "b", clear, barred=(FOR,))) == UNFAIR
    tolerated = Mean(0.5, 0.1, 5), Mean(1.1, 0.9, 5), Mean(1.5, 0.1, 5)
    assert [outcome_of(less("a", "b", mean, 1.0)) for mean in tolerated] == [FOR, UNCLEAR, AGAINST]


def test_many_comparisons_ask_more_of_each():
    """By Holm's rule one of 40 that alone would count is chance; very clear ones still count."""
    faint, plain, nothing = Mean(-1.0, 0.3, 5), Mean(-1.0, 0.01, 5), Mean(0.0, 1.0, 5)
    alone, crowd = less("a", "b", faint), less("a", "b", nothing) * 39
    assert outcome_of(alone) == FOR
    assert outcome_of(alone + crowd) == UNCLEAR
    assert outcome_of(less("a", "b", plain) + crowd) == FOR


@pytest.mark.slow
def test_the_chance_of_any_wrong_decision_is_at_most_five_per_cent():
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(2_000):
        values = rng.normal(size=(20, 5))
        means = [Mean(v.mean(), v.std(ddof=1) / np.sqrt(5), 5) for v in values]
        checks = decided([check for mean in means for check in less("a", "b", mean)])
        wrong += any(check.outcome != UNCLEAR for check in checks)
    # Three standard errors of a share of 5 % in 2,000.
    assert wrong / 2_000 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2_000)


def test_verdicts_add_up():
    yes = less("a", "b", Mean(-1.0, 0.01, 5))
    no = less("a", "b", Mean(1.0, 0.01, 5))
    vague = less("a", "b", Mean(0.0, 0.1, 5))
    mixes = yes, yes * 2 + vague, yes + vague, vague, no + vague, yes * 2 + no, yes + no, []
    assert [judge(decided(checks)) for checks in mixes] == [
        "holds",
        "holds in part",
        "not shown",
        "not shown",
        "does not hold",
        "holds in part",
        "does not hold",
        "not run",
    ]
    assert judge(decided(yes * 9 + no), superlative=True) == "does not hold"
    unfair = less("a", "b", Mean(1.0, 0.01, 5), barred=(AGAINST,))
    assert judge(decided(yes + unfair), superlative=True) == "holds"
    assert judge(decided(unfair)) == "not shown"


def test_a_mean_is_said_with_its_error():
    assert say(Mean(1.0, 0.25, 5)) == "1.00 ± 0.25"


def test_the_papers_methods_are_those_compared():
    assert set(ALIKE) - {"split"} == set(table1.COMPARED) - {"SLCP"}
