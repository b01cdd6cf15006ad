"""What estimators say, in the words of someone who has a command and a table before them."""

from __future__ import annotations

import json
from typing import Any

from localconformal.text import UNSEEN

#: What a message asks of a program -> what it asks of a user of commands.
IN_COMMANDS = {"call conformalize with more rows": "give more rows"}
#: Characters of a line on a terminal before its middle is left out.
LONGEST_LINE = 2_000


def one_line(text: str) -> str:
    """A message without line breaks, and without methods to call.

    Examples
    --------
    >>> one_line("Too few rows;\\n call conformalize with more rows.")
    'Too few rows; give more rows.'
    """
    line = " ".join(text.split())
    for asked, instead in IN_COMMANDS.items():
        line = line.replace(asked, instead)
    return line


def visible(text: str) -> str:
    r"""Text from data as a terminal shows it: nothing in it is obeyed, and no line is endless.

    Examples
    --------
    >>> print(visible("\x1b[31mred"), visible("a" * 9_999)[995:1_005])
    \x1b[31mred aaaaa...aa
    """
    lines = [line if len(line) <= LONGEST_LINE else cut(line) for line in text.split("\n")]
    return UNSEEN.sub(lambda found: repr(found[0])[1:-1], "\n".join(lines))


def cut(line: str) -> str:
    """A line without its middle."""
    half = LONGEST_LINE // 2
    return f"{line[:half]}...{line[-half:]}"


def json_text(document: Any) -> str:
    r"""JSON for people and terminals: indented, what is not to be seen written as \uXXXX.

    Examples
    --------
    >>> print(json_text({"name": "\u202eé\x9b"}))
    {
      "name": "\u202eé\u009b"
    }
    """
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
