"""Fixtures of the contracts."""

import pytest
from law_variants import FEW_TREES

from localconformal.laws import outputs


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    """A small forest wherever a spread is learned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "SPREAD_FORESTS", FEW_TREES)
        yield
