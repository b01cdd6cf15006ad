"""HTML that cannot be broken by data: every text is escaped unless it is markup already."""

from __future__ import annotations

import json
from html import escape
from typing import Any

#: What could end a script element, or a line of JavaScript, inside a string of JSON.
UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
VOID = frozenset({"meta", "input", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def join(*children: str | None) -> Markup:
    """The children in a row, escaped where they are not markup.

    Examples
    --------
    >>> join("a < b", Markup("<br>"), None)
    'a &lt; b<br>'
    """
    return Markup(
        "".join(
            child if isinstance(child, Markup) else escape(child)
            for child in children
            if child is not None
        )
    )


def tag(name: str, /, *children: str | None, **attributes: Any) -> Markup:
    """An element; ``class_`` is class, ``aria_label`` is aria-label, True is a bare attribute.

    Examples
    --------
    >>> tag("p", "1 < 2", class_="note", hidden=True, title=None)
    '<p class="note" hidden>1 &lt; 2</p>'
    """
    said = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        said.append(f" {attribute}" if value is True else f' {attribute}="{escape(str(value))}"')
    opened = f"<{name}{''.join(said)}>"
    return Markup(opened if name in VOID else f"{opened}{join(*children)}</{name}>")


def json_block(name: str, value: Any) -> Markup:
    """Data for the page's script; no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(
        f'<script type="application/json" id="{escape(name)}">{text.translate(UNSAFE)}</script>'
    )
