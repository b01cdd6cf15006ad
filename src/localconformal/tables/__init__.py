"""Tables on disk: CSV (also compressed) and Parquet, read whole or in batches.

Whatever is wrong with a file ends in a `TableError` of one sentence.
"""

from localconformal.tables.batches import DEFAULT_ROWS, table_batches
from localconformal.tables.errors import TableError
from localconformal.tables.read import read_table
from localconformal.tables.write import write_table

__all__ = ["DEFAULT_ROWS", "TableError", "read_table", "table_batches", "write_table"]
