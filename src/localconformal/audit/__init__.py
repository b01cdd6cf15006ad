"""Where coverage fails, for intervals of any origin; and methods side by side."""

from localconformal.audit.audit import Audit, Failure, Summary, audit
from localconformal.audit.cells import Cell, Condition, Counted
from localconformal.audit.compare import Comparison, Difference, Method, compare
from localconformal.audit.exchangeability import Exchangeability, exchangeability_test
from localconformal.audit.rules import Rule

__all__ = [
    "Audit",
    "Cell",
    "Comparison",
    "Condition",
    "Counted",
    "Difference",
    "Exchangeability",
    "Failure",
    "Method",
    "Rule",
    "Summary",
    "audit",
    "compare",
    "exchangeability_test",
]
