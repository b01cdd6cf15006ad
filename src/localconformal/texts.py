"""Texts from data: which of their characters would be obeyed instead of shown."""

from __future__ import annotations

import re

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
