"""Leaves from a file, checked before compiled loops follow their indices.

The leaf engine (`localconformal.engine.leaves`) looks at nothing twice: an index outside its arrays
would lead anywhere in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from localconformal.engine.leaves import LeafEngine, Records, TreeWalk
from localconformal.persistence.trees import parts_of


def check_leaves(model: Any) -> None:
    """Every leaf engine within the model is sound, or a ValueError."""
    for part in parts_of(model):
        if isinstance(part, LeafEngine):
            check_records(part.records, len(part.v))
            for inside in parts_of(part.find):
                if isinstance(inside, TreeWalk):
                    check_walk(inside, len(part.records.starts) - 1)


def check_records(records: Records, n: int) -> None:
    """Records fill their array, count their own members, and name ranks below n."""
    starts, words, bins, width = records.starts, records.words, records.bins, records.width
    sizes = np.diff(starts) - bins
    fills = len(starts) > 1 and starts[0] == 0 and starts[-1] == len(words)
    if min(bins, width) < 1 or not fills or np.any(sizes < 0):
        raise ValueError("the records of a forest's leaves do not fill their place")
    heads = words[starts[:-1, None] + np.arange(bins)].astype(np.int64)
    if np.any(np.diff(heads, axis=1) < 0) or np.any(heads[:, -1] != sizes):
        raise ValueError("a leaf of a forest miscounts its members")
    members = records.leaves(n).members
    if np.any(members < 0) or np.any(members >= n) or bins * width < n:
        raise ValueError("a leaf of a forest has a member that does not exist")


def check_walk(walk: TreeWalk, n_leaves: int) -> None:
    """Children lie behind their parent and inside the trees; leaves are known ones."""
    feature, left, code = walk.words[:, 0], walk.words[:, 1].astype(np.int64), walk.words[:, 2]
    place = np.arange(len(left))
    inner = left != place
    thresholds = walk.words.view(np.float32)[:, 3]
    outside = np.any(left < place) or np.any(left[inner] + 1 >= len(left))
    if outside or np.any(walk.roots < 0) or np.any(walk.roots >= len(left)):
        raise ValueError("a packed tree has a child outside itself")
    if np.any(feature < 0) or np.any(code >= n_leaves) or np.any(thresholds[~inner] != np.inf):
        raise ValueError("a packed tree has a leaf or a feature that does not exist")
