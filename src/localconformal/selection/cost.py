"""How many rows a search may look at.

Seconds are estimated from the numbers of rows and columns, not read off a clock: a search
looks at the same rows on any machine, however busy.
"""

from __future__ import annotations

#: Seconds that a search costs at least, and for a row and a column, on two cores.
FIXED, PER_NUMBER = 3.0, 1.4e-4
#: Columns' worth of work that a row costs even without features.
EXTRA_COLUMNS = 10
#: Default of ``selection_budget``.
BUDGET = 20.0
#: Rows that the default budget always buys: in wide tables fewer rows would save little time, and
#: laws learned from them would be worse than none.
FLOOR = 4_000
#: A search on fewer rows cannot tell candidates apart.
FEWEST = 160


def affordable_rows(budget: float, n: int, n_features: int) -> int:
    """Rows to search on within the budget: at most n; 0 when too few to be worth it.

    Examples
    --------
    >>> affordable_rows(20.0, 4_000, 20), affordable_rows(20.0, 1_000_000, 20) < 10_000
    (4000, True)
    >>> affordable_rows(20.0, 100, 20), affordable_rows(1.0, 5_000, 20)
    (0, 0)
    """
    if budget < FIXED:
        return 0
    rows = (budget - FIXED) / (PER_NUMBER * (n_features + EXTRA_COLUMNS))
    rows = max(rows, FLOOR * (budget - FIXED) / (BUDGET - FIXED))
    return min(int(rows), n) if min(rows, n) >= FEWEST else 0
