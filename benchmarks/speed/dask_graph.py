"""The scheduler's share at a billion rows: tasks and bytes of the real graphs, without the rows.

Every stage is built as `fit` and `predict_interval` build it, for so many partitions, and counted;
nothing is computed. What a graph weighs is its pickle; what moves is what tasks hand each other:
sketches up a tree, counts of cells, and one model to each worker.
"""

import pickle

import cloudpickle
import dask.array as da
import numpy as np

from benchmarks.speed.out_of_core import lazy_rows
from localconformal import KernelLaw, SLCPRegressor
from localconformal.distributed.blocks import make_blocks
from localconformal.distributed.calibrating import ConformalRanks, adjusted_columns
from localconformal.distributed.computing import FAN_IN, Step, add_up, as_delayed, task
from localconformal.distributed.estimator import ConstantRank, light_copy, split_column
from localconformal.distributed.laws import emptied, merge_sketches, sample_rows, sum_block
from localconformal.distributed.models import Scorers
from localconformal.distributed.positions import Roles
from localconformal.distributed.ranks import smallest

ROWS = (10**6, 10**8, 10**9)
PARTITION = 10**6
COLUMNS = 10


class FirstColumn:
    def predict(self, X):
        return np.asarray(X)[:, 0]


def fitted_model():
    """A small fit whose sketch is as large as that of a billion rows would be."""
    slcp = SLCPRegressor(FirstColumn(), law=KernelLaw(), random_state=0)
    return slcp.fit(*lazy_rows(250_000))


def stages(slcp, n):
    """The graph of each stage on n rows, as the collection or task that would be computed."""
    X = da.zeros((n, COLUMNS), chunks=(PARTITION, COLUMNS))
    blocks = make_blocks(X, X[:, 0])
    roles, shell = Roles(0, 0.25), light_copy(slcp)
    scorers = Scorers(slcp.score_, {0: slcp.score_}, roles)
    columns = [
        task(split_column, 0, start, length)
        for start, length in zip(blocks.starts, blocks.lengths, strict=True)
    ]
    frames = [emptied(law) for law in slcp.law_.laws]
    adjusted = blocks.map(adjusted_columns, shell, roles, np.array([0.9]))
    return {
        "split": smallest(columns, ConstantRank(n // 4)),
        "sample": task(list, blocks.map(sample_rows, shell, scorers, 0.01)),
        "sketch": add_up(blocks.map(sum_block, shell, scorers, frames), merge_sketches),
        "calibrate": smallest(adjusted, ConformalRanks((0.9,))),
        "predict": slcp.predict_interval(X),
    }


def weigh(collection):
    """Tasks of a graph and the bytes that the scheduler gets."""
    made = as_delayed([collection])[0] if isinstance(collection, Step) else collection
    graph = dict(made.__dask_graph__())
    return {"tasks": len(graph), "megabytes": len(cloudpickle.dumps(graph)) / 1e6}


def tree_transfers(partitions):
    """How many results go up a tree of this fan-in."""
    sent = 0
    while partitions > 1:
        sent += partitions
        partitions = -(-partitions // FAN_IN)
    return sent


def measure_graphs(rows=ROWS):
    """Every size, stage by stage."""
    slcp = fitted_model()
    sketch = slcp.law_.laws[0].engine_.sketch
    found = {
        "rows_a_partition": PARTITION,
        "megabytes_of_a_sketch": sketch.n_bytes / 1e6,
        "megabytes_of_the_model": len(pickle.dumps(light_copy(slcp))) / 1e6,
        "landmarks": len(sketch.landmarks),
        "sizes": [],
    }
    for n in rows:
        partitions = -(-n // PARTITION)
        found["sizes"].append(
            {
                "rows": n,
                "partitions": partitions,
                "stages": {name: weigh(one) for name, one in stages(slcp, n).items()},
                "megabytes_of_sketches_moved": tree_transfers(partitions) * sketch.n_bytes / 1e6,
            }
        )
    return found
