"""Texts that attack whoever shows them, tables made of them, and what no output may have."""

import csv
import unicodedata
from html.parser import HTMLParser

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from localconformal.cli.app import app

#: What is tried -> a text that tries it; all of them can stand in a CSV file.
TEXTS = {
    "script": "<script>alert(1)</script>",
    "image": '"><img src=x onerror=alert(1)>',
    "attribute": "' onmouseover='alert(1)",
    "end of script": "</script><svg onload=alert(1)>",
    "comment": "<!--",
    "entity": "&lt;script&gt;&#x3c;",
    "Markdown link": "[click](javascript:alert(1))",
    "Markdown table": "a | b\\|`c`",
    "rich markup": "[bold red]x[/bold red][link=http://x.invalid]y[/link]",
    "formula": "=cmd|'/C calc'!A0",
    "formula after a blank": " =1+1",
    "formula in wide signs": "＝1+1",
    "plus": "+1+1",
    "minus": "-1+1",
    "at": "@SUM(A1)",
    "tab": "\t=1+1",
    "line break": "\n=1+1",
    "parent folder": "../../../outside",
    "absolute path": "/tmp/outside",
    "drive": "C:\\outside",
    "device": "CON",
    "NUL": "a\x00b",
    "bidi override": "\u202efdp.exe\u202c",
    "bidi isolate": "\u2066x\u2069",
    "ANSI colour": "\x1b[31mred\x1b[0m",
    "ANSI title": "\x1b]0;title\x07",
    "C1 control": "\x9b31m",
    "delete": "a\x7f\x08b",
    "line separator": "a\u2028b\u2029c",
    "dunder": "__class__",
    "private": "_hidden",
    "jinja": "{{ 7 * 7 }}{% raw %}",
    "format": "{0.__class__} %s %n ${jndi:x}",
    "mathematics": "$\\frac$ \\$x_1",
    "quotes": "\"'`;, DROP TABLE rows",
    "long": "long " * 20_000,
}
#: Only Python can hold it.
SURROGATE = "half \ud800 letter"
FORMULA_BEGINNINGS = tuple("=+-@\t\r\n＝＋－＠")
#: Line breaks apart, what a terminal would act upon.
OBEYED = {"Cc", "Cs", "Zl", "Zp"}
TURNING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


TARGET = "=target<b>\x1b[2J"
#: Columns of `hostile_table`: groups, and names of rows.
GROUPS, IDENTIFIER = TEXTS["script"], TEXTS["formula"]
LABELS = [TEXTS[name] for name in ("image", "ANSI colour", "bidi override", "long", "formula")]


def table_of(texts, labels, groups, identifier, target, n=240, seed=0):
    """Names of columns, categories, cells and names of rows from texts; two labels are noisy."""
    rng = np.random.default_rng(seed)
    # Every third text names a column: an audit of more takes long.
    table = pd.DataFrame({f"{text}#": rng.normal(size=n) for text in texts[::3]})
    table[groups] = np.resize(labels, n)
    table[identifier] = np.resize(texts, n)
    scale = np.where(table[groups].isin(labels[1:3]), 8.0, 1.0)
    table[target] = table.iloc[:, 0] + scale * rng.normal(size=n)
    return table


def hostile_table():
    return table_of(list(TEXTS.values()), LABELS, GROUPS, IDENTIFIER, TARGET)


def harmless_table():
    """The same numbers under names that mean no harm."""
    texts = [f"t{i}" for i in range(len(TEXTS))]
    return table_of(texts, list("abcde"), "groups", "identifier", "target")


def call(*arguments):
    """The command's result."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


class Elements(HTMLParser):
    """Elements with their attributes, and the text inside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.found, self.inside = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside.append((tag, dict(attrs), ""))

    def handle_data(self, data):
        if self.cdata_elem:
            tag, attrs, text = self.inside[-1]
            self.inside[-1] = (tag, attrs, text + data)

    @property
    def shape(self):
        """Names of elements, each with the names of its attributes."""
        return {(tag, name) for tag, attrs in self.found for name in (None, *attrs)}

    @property
    def links(self):
        return [attrs[key] for _, attrs in self.found for key in ("href", "src") if key in attrs]


def obeyed(text):
    """Characters of an output that a terminal or a reader would obey."""
    return {c for c in text if (unicodedata.category(c) in OBEYED and c != "\n") or c in TURNING}


def is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def formulas(path):
    """Cells of a CSV file that a spreadsheet would run; numbers are none."""
    with path.open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    return [c for c in cells if not is_number(c) and c.lstrip(" ").startswith(FORMULA_BEGINNINGS)]


def files_under(folder):
    return {path for path in folder.rglob("*") if path.is_file()}
