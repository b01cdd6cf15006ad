"""An audit and a comparison as HTML: a fragment for notebooks, a page of its own for a file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as escape_markup
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localconformal.audit.sentences import (
    TITLES,
    heading,
    part_verdict,
    probability,
    slab_sentence,
    summary_lines,
)
from localconformal.audit.significance import ALPHA, stands_out
from localconformal.io.files import write_whole
from localconformal.text import say_number, say_share, shown

if TYPE_CHECKING:
    from localconformal.audit.audit import Audit
    from localconformal.audit.compare import Comparison

#: Rows of a table before the rest is only counted.
MOST_ROWS = 20
STYLE = """
.lc-audit { font: 14px/1.45 system-ui, sans-serif; max-width: 60rem; overflow-x: auto; }
.lc-audit table { border-collapse: collapse; margin: .3rem 0 1rem; }
.lc-audit th, .lc-audit td { padding: .15rem .7rem .15rem 0; text-align: right;
  white-space: nowrap; }
.lc-audit th { font-weight: 600; border-bottom: 1px solid currentColor; }
.lc-audit th:first-child, .lc-audit td:first-child { text-align: left; min-width: 8rem;
  max-width: 24rem; white-space: normal; overflow-wrap: break-word; }
.lc-audit td.lc-text { text-align: left; white-space: normal; }
.lc-audit h3 { font-size: 1.05em; margin: 1rem 0 .2rem; }
.lc-audit tr.lc-off td { font-weight: 600; }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
</head>
<body>
{body}
</body>
</html>
"""


def escape(text: str) -> str:
    """Text from data as text of a page: shown, never obeyed."""
    return escape_markup(shown(text))


def audit_page(audit: Audit) -> str:
    """The audit as a page that needs nothing else."""
    return PAGE.format(title=escape(heading(audit)), body=audit_fragment(audit))


def audit_fragment(audit: Audit) -> str:
    """The audit as one element."""
    parts = [
        f"<h3>{escape(heading(audit))}</h3>",
        html_table(["", "value", ""], [list(line) for line in summary_lines(audit.summary)], (2,)),
    ]
    parts += [part_table(audit, part, title) for part, title in TITLES.items()]
    if audit.slab.n:
        parts.append(f"<p>{escape(slab_sentence(audit))}</p>")
    if audit.notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in audit.notes)
        parts.append(f"<h3>Notes</h3><ul>{items}</ul>")
    return wrapped("\n".join(part for part in parts if part))


def part_table(audit: Audit, part: str, title: str) -> str:
    """One part as a table, what is significant in bold."""
    tested = getattr(audit, part)
    if not tested:
        return ""
    # Where all rows are off the target, bold is what stands out from them as well.
    shown = tested[:MOST_ROWS]
    table = html_table(
        ["which rows", "rows", "coverage", "95 % band", "gap", "mean length", "adjusted p"],
        [region_cells(region) for region in shown],
        marked=[i for i, region in enumerate(shown) if is_marked(audit, region)],
    )
    rest = len(tested) - len(shown)
    more = f'<p>and {rest:,} more: see frame("{part}")</p>' if rest else ""
    return f"<h3>{title}: {part_verdict(audit, part)}</h3>{table}{more}"


def is_marked(audit: Audit, region: Any) -> bool:
    """Whether a rule or a cell is off by more than chance, and not only with all rows."""
    is_significant = region.adjusted_p_value <= ALPHA
    return bool(is_significant and (stands_out(region) or not audit.is_shifted))


def region_cells(region: Any) -> list[str]:
    """A rule or a cell as texts."""
    return [
        region.text,
        f"{region.n:,}",
        say_share(region.coverage),
        f"{100 * region.lower:.1f} to {100 * region.upper:.1f}",
        f"{100 * region.gap:+.1f}",
        say_number(region.mean_length),
        probability(region.adjusted_p_value),
    ]


def comparison_fragment(comparison: Comparison) -> str:
    """The comparison as one element."""
    methods, differences = comparison.texts()
    parts = [f"<h3>{escape(comparison.heading())}</h3>{html_table(methods[0], methods[1:])}"]
    if len(differences) > 1:
        title = escape(comparison.differences_heading())
        parts.append(f"<h3>{title}</h3>{html_table(differences[0], differences[1:])}")
    if comparison.notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in comparison.notes)
        parts.append(f"<ul>{items}</ul>")
    return wrapped("\n".join(parts))


def wrapped(body: str) -> str:
    """The element with its own style."""
    return f'<div class="lc-audit"><style>{STYLE}</style>\n{body}\n</div>'


def html_table(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    texts: Sequence[int] = (),
    marked: Sequence[int] = (),
) -> str:
    """A table of texts, all of them escaped; columns in ``texts`` are to the left."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = []
    for i, row in enumerate(rows):
        cells = "".join(
            f'<td class="lc-text">{escape(text)}</td>' if j in texts else f"<td>{escape(text)}</td>"
            for j, text in enumerate(row)
        )
        body.append(f'<tr class="lc-off">{cells}</tr>' if i in marked else f"<tr>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def write_page(path: str | Path, page: str) -> Path:
    """The file is whole or not there."""
    return write_whole(Path(path), lambda part: part.write_text(page, encoding="utf-8"))
