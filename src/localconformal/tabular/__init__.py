"""Table in, checked intervals out: the work behind the commands, as functions for Python."""

from localconformal.tabular.compare import Ranking, compare_methods

__all__ = ["Ranking", "compare_methods"]
