"""Table in, checked intervals out: the work behind the commands, as Python functions."""

from localconformal.tabular.compare import Ranking, compare_methods
from localconformal.tabular.model import TableModel, fit_table_model
from localconformal.tabular.run import Run, run_table, write_run

__all__ = ["Ranking", "Run", "TableModel"]
__all__ += ["compare_methods", "fit_table_model", "run_table", "write_run"]
