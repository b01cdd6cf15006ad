"""What estimators say, in the words of someone who has a command and a table before them."""

from __future__ import annotations

#: What a message asks of a program -> what it asks of a user of commands.
IN_COMMANDS = {"call conformalize with more rows": "give more rows"}


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
