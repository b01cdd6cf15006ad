"""Fixtures of the contracts."""

import pytest

from localconformal.laws import outputs


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    """A small forest wherever a spread is learned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "SPREAD_FORESTS", ((20, 5, 0.5), (10, 30, 1.0)))
        yield
