r"""Text from data, numbers and shares for people to read, and pages from templates.

Examples
--------
>>> print(visible("\x1b[31mred"), one_line("two\nlines"), json_text(["\u202eé\x9b"]).split())
\x1b[31mred two lines ['[', '"\\u202eé\\u009b"', ']']
>>> shorten("counts of rentals, the casual ones included", 20), listing("abcd", most=2)
('counts of re…ncluded', 'a, b and 2 more')
>>> unknown_choice("method", "slpc", ["slcp", "split"])
ValueError("There is no method 'slpc'; did you mean slcp? Choose one of slcp, split.")
>>> say_number(293712.4), say_tick(146812.5, 2.5), say_difference(-6.7e-5, -0.003, 0.0029)
('293,700', '146,812.5', '-0.0001 [-0.0030, +0.0029]')
>>> say_share(0.91372), say_level(0.995), say_band(0.8312, 0.9), say_p_value(1e-9), say_rows(1)
('91.4 %', '99.5 %', '83.1 to 90.0', '< 0.001', '1 row')
>>> with on_command_line():
...     print(option("cv=10", "--cv 10"))
--cv 10
>>> plain_data({"a": (np.float64(1 / 3), math.inf), "b": None, "c": np.bool_(True)}, digits=6)
{'a': [0.333333, 'Infinity'], 'b': None, 'c': True}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from numbers import Integral
from typing import Any

import numpy as np

#: Control characters except line breaks, lone surrogates, line separators, direction marks.
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069]")

_IS_COMMAND = ContextVar("_IS_COMMAND", default=False)


@contextmanager
def on_command_line() -> Iterator[None]:
    """Inside, messages name options as they are typed; see `option`."""
    token = _IS_COMMAND.set(True)
    try:
        yield
    finally:
        _IS_COMMAND.reset(token)


def option(in_python: str, typed: str) -> str:
    """How to write an option for whoever reads the message: in Python or on the command line."""
    return typed if _IS_COMMAND.get() else in_python


def visible(text: str, longest_line: int = 2_000) -> str:
    """Text from data, safe for a terminal: control characters are escaped, long lines cut."""
    lines = [shorten(line, longest_line) for line in text.split("\n")]
    return UNSEEN.sub(lambda found: repr(found[0])[1:-1], "\n".join(lines))


def one_line(said: object, width: int = 160) -> str:
    """Text of an exception, a file or a cell, on one line, cut and escaped."""
    text = " ".join(str(said).split())
    text = text if len(text) <= width else f"{text[: width - 3]}..."
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shorten(name: object, width: int = 60) -> str:
    """A name, without its middle if it is long: start and end distinguish names best."""
    text = str(name)
    if len(text) <= width:
        return text
    tail = (width - 1) * 2 // 5
    return f"{text[: width - 1 - tail].rstrip()}…{text[-tail:].lstrip()}"


def listing(names: Iterable[object], most: int = 10) -> str:
    """Names with commas; those beyond the first few are counted."""
    texts = [str(name) for name in names]
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def unknown_choice(kind: str, name: str, choices: Iterable[str]) -> ValueError:
    """The error to raise: what was given, what was probably meant, and the choices."""
    known = list(choices)
    near = get_close_matches(name.lower(), known, n=1)
    end = f"did you mean {near[0]}? Choose" if near else "choose"
    return ValueError(f"There is no {kind} {name!r}; {end} one of {', '.join(known)}.")


def say_number(value: float, *, signed: bool = False) -> str:
    """Thousands separators and four digits; integers in full; a dash for NaN."""
    sign = "+" if signed else ""
    if isinstance(value, Integral):
        return f"{int(value):{sign},}"
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return f"{value:{sign}}".replace("inf", "infinity")
    if abs(value) >= 1e15:
        return f"{value:{sign}.4g}"
    # Adding zero removes the sign of a negative zero.
    return f"{float(f'{value:.4g}') + 0.0:{sign},.15g}"


def say_tick(value: float, step: float) -> str:
    """A number with enough digits to distinguish it from others a ``step`` away, as on an axis."""
    if not (math.isfinite(value) and math.isfinite(step) and step > 0.0):
        return say_number(value)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return f"{round(float(value), digits) + 0.0:,.15g}"


def say_difference(value: float, lower: float, upper: float) -> str:
    """A difference and its 95 % interval, to two digits of its standard error."""
    error = (upper - lower) / 4.0
    if not 0.0 < error < math.inf:
        return say_number(value, signed=True)
    digits = min(max(1 - math.floor(math.log10(error)), 0), 12)
    mean, low, high = (f"{round(v, digits) + 0.0:+,.{digits}f}" for v in (value, lower, upper))
    return f"{mean} [{low}, {high}]"


def say_share(share: float) -> str:
    """A measured share, in per cent."""
    return "-" if math.isnan(share) else f"{100 * share:.1f} %"


def say_level(level: float) -> str:
    """A requested share, in per cent, with all its digits."""
    return f"{100 * level:g} %"


def say_band(lower: float, upper: float) -> str:
    """A band of shares, in per cent."""
    return f"{100 * lower:.1f} to {100 * upper:.1f}"


def say_p_value(value: float) -> str:
    """A p-value; small ones as a bound."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def say_rows(n: int) -> str:
    """A number of rows."""
    return "1 row" if n == 1 else f"{n:,} rows"


def _replaced(text: str) -> str:
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def plain_data(
    value: Any, digits: int | None = None, *, say: Callable[[str], str] = _replaced
) -> Any:
    """Only numbers, strings, lists and dicts; anything else becomes a string, through ``say``.

    "NaN", "Infinity" and "-Infinity", which JSON lacks, are strings that ``float`` and JavaScript's
    ``Number`` read as numbers. Non-integers keep this many ``digits``, None for all.
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return plain_data(value.tolist(), digits, say=say)
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        is_whole = value.is_integer() and abs(value) < 1e15
        return value if is_whole or digits is None else float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {say(str(key)): plain_data(item, digits, say=say) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item, digits, say=say) for item in value]
    return say(str(value))


def json_text(document: Any) -> str:
    r"""`plain_data` as indented JSON, with invisible characters written as \uXXXX."""
    text = json.dumps(plain_data(document, say=str), indent=2, ensure_ascii=False)
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Rows of strings as lines: first and last column left-aligned, the others right-aligned."""
    widths, lines = [max(map(len, column)) for column in zip(*table, strict=True)], []
    for first, *middle, last in table:
        cells = [text.rjust(width) for text, width in zip(middle, widths[1:-1], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *cells, last]).rstrip())
    return lines


def has_jinja2() -> bool:
    """Whether templates can be rendered."""
    return find_spec("jinja2") is not None


def render_template(path: str, **given: Any) -> str:
    """A template of this library, by its path below the package; every text is escaped."""
    if not has_jinja2():
        how = "run pip install 'localconformal[report]'"
        raise ImportError(f"an HTML page needs jinja2, which is not installed: {how}.")
    return str(_environment().get_template(path).render(**given))


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment: Any = Environment(
        loader=PackageLoader("localconformal", ""),
        autoescape=True,
        # Text from data is shown, never interpreted: here and by the escaping.
        finalize=lambda value: value if isinstance(value, Markup) else _replaced(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    tight = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = tight
    environment.globals |= {f.__name__: f for f in (say_band, say_number, say_p_value, say_share)}
    return environment
