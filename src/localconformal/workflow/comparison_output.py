"""A comparison as plain data, as a table and as a page."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from localconformal.audit import audit
from localconformal.report import write_report
from localconformal.workflow.comparison import TableComparison
from localconformal.workflow.standings import COLUMNS


def comparison_record(found: TableComparison) -> dict[str, Any]:
    """Everything that was found, as plain data."""
    return {
        "confidence_level": found.confidence_level,
        "splits": found.repeats,
        "rows": {"fit": found.first.n_fit, "test": len(found.first.y)},
        "standings": [asdict(standing) for standing in found.standings],
        "failed": found.failed,
        "notes": [*found.notes, *notes(found)],
    }


def comparison_frame(found: TableComparison) -> pd.DataFrame:
    """One row a method, the best first; those that failed last, with the reason."""
    ranked = pd.DataFrame([asdict(one) for one in found.standings], columns=list(COLUMNS))
    failed = pd.DataFrame({"method": list(found.failed), "error": list(found.failed.values())})
    return pd.concat([ranked.astype({"rank": "Int64"}), failed], ignore_index=True)


def notes(found: TableComparison) -> list[str]:
    """How to read the ranking."""
    said = [
        "The interval score is the mean length plus a price for every miss; lower is better.",
        "The best is the best on these test rows: on others its lead will be a little smaller.",
    ]
    if found.repeats > 1:
        said.append(
            f"Numbers are means of {found.repeats} random splits; intervals allow for the rows "
            "that splits share."
        )
    if any(standing.share_infinite > 0 for standing in found.standings):
        said.append(
            "Differences of score and length are those of rows where both methods are finite."
        )
    return said


def write_comparison_page(found: TableComparison, path: Path, *, random_state: int = 0) -> None:
    """The best method's audit beside all the others, as a self-contained page."""
    first, best = found.first, found.best
    X, _ = best.model.preparation.transform(first.test)
    audited = audit(
        X,
        first.y,
        best.intervals,
        confidence_level=found.confidence_level,
        random_state=random_state,
    )
    write_report(
        replace(audited, notes=(*found.notes, *audited.notes)),
        path,
        model=best.model.regressor,
        title=f"The best of {len(found.standings)} methods: {found.standings[0].method}",
        comparison=found.comparison,
        X=X,
        y=first.y,
        intervals=best.intervals,
        y_pred=best.model.predict_prepared(X, first.test)["predicted"].to_numpy(),
        random_state=random_state,
        group_hint="",
    )
