"""A leaf engine from a file follows no index out of its arrays."""

from dataclasses import replace

import numpy as np
import pytest

from localconformal.engine.leaves import LeafEngine, TreeWalk, collect_leaves
from localconformal.io.checks import check_leaves


def engine_of_one_split():
    """One tree: x <= 0 is leaf 0, the others leaf 1."""
    words = np.array([[0, 1, -1, 0], [0, 1, 0, 0], [0, 2, 1, 0]], dtype=np.int32)
    words.view(np.float32)[:, 3] = [0.0, np.inf, np.inf]
    codes = (np.arange(60) % 2).astype(np.int32)[:, None]
    walk = TreeWalk(words, np.array([0]))
    return LeafEngine(np.sort(np.linspace(-1, 1, 60)), collect_leaves(codes, 2), walk)


def test_a_sound_engine_passes():
    check_leaves([engine_of_one_split()])


@pytest.mark.parametrize("name", ["starts", "words", "bins", "width"])
@pytest.mark.parametrize("value", [0, 2**14])
def test_altered_records_are_refused(name, value):
    engine = engine_of_one_split()
    held = getattr(engine.records, name)
    altered = np.full_like(held, value) if isinstance(held, np.ndarray) else value
    engine.records = replace(engine.records, **{name: altered})
    with pytest.raises(ValueError, match="lea"):
        check_leaves([engine])


@pytest.mark.parametrize(
    ("node", "column", "value"), [(0, 1, 2), (0, 1, 2**30), (2, 1, 0), (1, 2, 2), (0, 0, -1)]
)
def test_altered_trees_are_refused(node, column, value):
    engine = engine_of_one_split()
    engine.find.words[node, column] = value
    with pytest.raises(ValueError, match="packed tree"):
        check_leaves([engine])
