"""One table in all the ways in which Dask reads one, cut into partitions of many sizes."""

from itertools import pairwise

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask_rows import NAMES, cut, rows

SIZES = (70, 300, 500, 1, 50, 250, 29)
ENDS = np.cumsum((0, *SIZES))
#: Columns that nobody asks for: the fewer are read, the more files Dask joins into one partition,
#: here two for X and y together, three for y alone.
OTHERS = ["d", "e"]
FEATURES, RESPONSE = rows(int(ENDS[-1]), 0)
TABLE = pd.DataFrame(FEATURES, columns=NAMES).assign(y=RESPONSE, **dict.fromkeys(OTHERS, 0.5))


def sides(table):
    """X and y of a Dask frame."""
    return table[NAMES], table["y"]


def write(folder):
    """One Parquet file per partition, of several row groups."""
    for place, part in enumerate(map(part_of, pairwise(ENDS))):
        part.to_parquet(folder / f"{place}.parquet", row_group_size=60, index=False)
    return folder


def part_of(ends):
    return TABLE.iloc[slice(*ends)]


def parquet(folder, **options):
    return sides(dd.read_parquet(write(folder), **options))


def read_twice(folder):
    """Each side from a frame of its own."""
    write(folder)
    X = dd.read_parquet(folder, columns=NAMES)
    return X, dd.read_parquet(folder, columns=["y"])["y"]


def arrays_of_frames(folder):
    """Dask joins files in arrays, and differently for X and y, until their lengths are known."""
    return tuple(side.values.compute_chunk_sizes() for side in parquet(folder))


#: Name -> a function of an empty folder that returns X and y.
SOURCES = {
    "parquet": parquet,
    "row groups": lambda folder: parquet(folder, split_row_groups=True),
    "read twice": read_twice,
    "arrays of frames": arrays_of_frames,
    "from_pandas": lambda folder: sides(dd.from_pandas(TABLE, npartitions=5)),
    "from_map": lambda folder: sides(
        dd.from_map(part_of, list(pairwise(ENDS)), meta=TABLE.iloc[:0])
    ),
    "arrays": lambda folder: cut(FEATURES, RESPONSE, SIZES),
}
