"""HTML from templates: of an audit and a comparison here, and of the report, which stands above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from localconformal.audit.sentences import (
    TITLES,
    heading,
    part_verdict,
    probability,
    say_band,
    slab_sentence,
    summary_lines,
)
from localconformal.audit.significance import ALPHA, stands_out
from localconformal.text import say_number, say_share, shown

if TYPE_CHECKING:
    from localconformal.audit.audit import Audit
    from localconformal.audit.compare import Comparison

#: Rows of a table before the rest is only counted.
MOST_ROWS = 20
COLUMNS = ("which rows", "rows", "coverage", "95 % band", "gap", "mean length", "adjusted p")


def has_jinja2() -> bool:
    """Whether templates can be rendered."""
    return find_spec("jinja2") is not None


def check_jinja2() -> None:
    """Raise where templates cannot be rendered."""
    if not has_jinja2():
        raise ImportError(
            "An HTML page needs jinja2, which this environment lacks: "
            "run pip install 'localconformal[report]'."
        )


def render_template(path: str, **given: Any) -> str:
    """A template of this library, by its path below the package; every text is escaped."""
    check_jinja2()
    return str(_environment().get_template(path).render(**given))


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("localconformal", ""),
        autoescape=True,
        # Texts from data are shown, never obeyed: here and by the escaping.
        finalize=lambda value: value if isinstance(value, Markup) else shown(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "allow_nan": False,
        "separators": (",", ":"),
    }
    return environment


@dataclass(frozen=True)
class _Section:
    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    #: Rows in bold, by their place.
    marked: Sequence[int] = ()
    #: The column that is a sentence.
    text_column: int | None = None
    below: str = ""
    notes: Sequence[str] = ()


def audit_html(audit: Audit, is_page: bool = False) -> str:
    """The audit as one element, or as a page that needs nothing else."""
    lines = summary_lines(audit.summary)
    sections = [_Section(heading(audit), ("", "value", ""), lines, text_column=2)]
    sections += [_part(audit, part) for part in TITLES if getattr(audit, part)]
    if audit.slab.n:
        sections.append(_Section("", below=slab_sentence(audit)))
    if audit.notes:
        sections.append(_Section("Notes", notes=audit.notes))
    return render_template("audit/audit.html.j2", sections=sections, is_page=is_page)


def comparison_html(comparison: Comparison) -> str:
    """The comparison as one element."""
    headings = (comparison.heading(), comparison.differences_heading())
    sections = [
        _Section(title, names, rows)
        for title, (names, *rows) in zip(headings, comparison.texts(), strict=True)
        if rows
    ]
    sections.append(_Section("", notes=comparison.notes))
    return render_template("audit/audit.html.j2", sections=sections, is_page=False)


def _part(audit: Audit, part: str) -> _Section:
    tested = getattr(audit, part)
    first = tested[:MOST_ROWS]
    rest = len(tested) - len(first)
    return _Section(
        f"{TITLES[part]}: {part_verdict(audit, part)}",
        COLUMNS,
        [_region_cells(region) for region in first],
        marked=[i for i, region in enumerate(first) if _is_marked(audit, region)],
        below=f'and {rest:,} more: see frame("{part}")' if rest else "",
    )


def _is_marked(audit: Audit, region: Any) -> bool:
    # Where all rows are off the target, bold is what stands out from them as well.
    is_significant = region.adjusted_p_value <= ALPHA
    return bool(is_significant and (stands_out(region) or not audit.is_shifted))


def _region_cells(region: Any) -> list[str]:
    return [
        region.text,
        f"{region.n:,}",
        say_share(region.coverage),
        say_band(region.lower, region.upper),
        f"{100 * region.gap:+.1f}",
        say_number(region.mean_length),
        probability(region.adjusted_p_value),
    ]
