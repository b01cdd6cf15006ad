"""Text and HTML: readable, escaped, whole."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from audit_data import oracle, planted
from hypothesis import given
from hypothesis import strategies as st

from localconformal.audit import audit, compare
from localconformal.audit.html import write_page
from localconformal.audit.sentences import coverage_phrase, coverage_sentence, digits_of_band

EVIL = "<script>alert(1)</script>"


class Tags(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.texts = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open.pop() != tag:
            pass

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def evil():
    """A failure in a column and a label that are code."""
    rng = np.random.default_rng(0)
    label = rng.choice([EVIL, "x\n\ny"], 2_000)
    X = pd.DataFrame({EVIL: label, "a": rng.normal(size=2_000)})
    y = rng.normal(size=2_000) * np.where(label == EVIL, 2.0, 1.0)
    return X, y, np.tile([-1.645, 1.645], (2_000, 1))


def test_a_rule_is_a_sentence():
    X, y, intervals, _ = planted(5_000, 0)
    rule = audit(X, y, intervals).rules[0]
    sentence = coverage_sentence(rule, 0.9)
    assert sentence.startswith(f"{rule.text}: ")
    assert sentence.endswith(f"] of {rule.n} rows, target 90 %")
    assert sentence in str(audit(X, y, intervals))


def test_narrow_bands_get_a_digit_more():
    cells = audit(*oracle(4_000, 1)).sizes
    assert "." not in coverage_phrase(cells[0], 0.9)
    big = audit(np.arange(20_000) % 2, np.zeros(20_000), np.tile([-1.0, 1.0], (20_000, 1)))
    assert coverage_phrase(big.features[0], 0.95) == (
        "100.0 % [100.0, 100.0] of 10,000 rows, target 95 %"
    )


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.975]))
def test_a_rounded_band_holds_the_target_if_the_band_does(a, b, level):
    lower, upper = sorted([a, b])
    digits = digits_of_band(lower, upper, level)
    if digits < 3:
        shown = round(100 * lower, digits), round(100 * upper, digits)
        assert (shown[0] <= 100 * level <= shown[1]) == (lower <= level <= upper)


def test_texts_from_data_stay_texts(evil):
    found = audit(*evil, groups=EVIL)
    for page in (found._repr_html_(), compare({EVIL: evil[2], "b": 2 * evil[2]}, *evil[:2])):
        html = page if isinstance(page, str) else page._repr_html_()
        parsed = Tags(html)
        assert "script" not in parsed.tags
        assert any(EVIL in text for text in parsed.texts)


def test_texts_have_one_line_each(evil):
    lines = str(audit(*evil)).splitlines()
    assert any(line.strip().startswith(f"{EVIL} = {EVIL}: ") for line in lines)
    assert not any(line == "y" or line.startswith("y:") for line in lines)


def test_the_page_is_whole_and_asks_for_nothing(tmp_path, evil):
    path = audit(*evil).to_html(tmp_path / "audit.html")
    page = path.read_text(encoding="utf-8")
    parsed = Tags(page)
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert not {"script", "link", "img", "iframe"} & set(parsed.tags)
    assert "http" not in page
    assert [p.name for p in tmp_path.iterdir()] == ["audit.html"]


def test_a_page_that_cannot_be_written_leaves_the_former_one(tmp_path):
    path = write_page(tmp_path / "audit.html", "before")
    with pytest.raises(UnicodeEncodeError):
        write_page(path, "\ud800")
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["audit.html"]


def test_a_long_list_of_failures_is_cut():
    X, y, intervals = oracle(6_000, 2)
    text = str(audit(X, y, intervals * 0.3))
    assert 'more: see frame("failures")' in text
    assert "off 90 % by more than chance" in text


def test_columns_line_up():
    lines = str(audit(*oracle(500, 3))).splitlines()[1:9]
    starts = {line.index(line.split("  ")[-1]) for line in lines}
    assert len(starts) == 1
