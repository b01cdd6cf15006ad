"""Texts from data, and numbers and shares as people write them."""

from __future__ import annotations

import math
import re
from numbers import Integral

#: Control characters but for line breaks, lone surrogates, separators of lines, and marks that
#: turn the direction of writing.
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069]")


def shown(text: str) -> str:
    r"""The text with U+FFFD for what no page may hold.

    Examples
    --------
    >>> shown("a\x1b[31m b")
    'a�[31m b'
    """
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def say_number(value: float, *, signed: bool = False) -> str:
    """Thousands apart and four digits, but whole counts; a dash for what is undefined.

    Examples
    --------
    >>> say_number(293712.4), say_number(10886), say_number(0.25), say_number(0.000123)
    ('293,700', '10,886', '0.25', '0.000123')
    >>> say_number(1e-9), say_number(3.1, signed=True), say_number(float("-inf"))
    ('1e-09', '+3.1', '-infinity')
    """
    sign = "+" if signed else ""
    if isinstance(value, Integral):
        return f"{int(value):{sign},}"
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return f"{value:{sign}}".replace("inf", "infinity")
    if abs(value) >= 1e15:
        return f"{value:{sign}.4g}"
    # Zero is added so that no zero is negative.
    return f"{float(f'{value:.4g}') + 0.0:{sign},.15g}"


def say_tick(value: float, step: float) -> str:
    """A number in the digits that tell it from others a ``step`` away, as along an axis.

    Examples
    --------
    >>> say_tick(146812.5, 2.5), say_tick(0.30000000000000004, 0.1), say_tick(1000.0, 500.0)
    ('146,812.5', '0.3', '1,000')
    """
    if not (math.isfinite(value) and math.isfinite(step) and step > 0.0):
        return say_number(value)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return f"{round(float(value), digits) + 0.0:,.15g}"


def say_difference(value: float, lower: float, upper: float) -> str:
    """A difference and its 95 % interval, to two digits of its standard error.

    Examples
    --------
    >>> say_difference(-6.7e-5, -0.003, 0.0029), say_difference(29412.0, 28011.0, 30813.0)
    ('-0.0001 [-0.0030, +0.0029]', '+29,412 [+28,011, +30,813]')
    """
    error = (upper - lower) / 4.0
    if not 0.0 < error < math.inf:
        return say_number(value, signed=True)
    digits = min(max(1 - math.floor(math.log10(error)), 0), 12)
    mean, low, high = (f"{round(v, digits) + 0.0:+,.{digits}f}" for v in (value, lower, upper))
    return f"{mean} [{low}, {high}]"


def say_share(share: float) -> str:
    """A share that was measured, in per cent.

    Examples
    --------
    >>> say_share(0.91372), say_share(float("nan"))
    ('91.4 %', '-')
    """
    return "-" if math.isnan(share) else f"{100 * share:.1f} %"


def say_level(level: float) -> str:
    """A share that was asked for, in per cent, with all its digits.

    Examples
    --------
    >>> say_level(0.995), say_level(0.29)
    ('99.5 %', '29 %')
    """
    return f"{100 * level:g} %"


def say_rows(n: int) -> str:
    """How many rows."""
    return "1 row" if n == 1 else f"{n:,} rows"
