"""Random walks over the public interface find no answer that it does not promise."""

import pytest
from fuzz_everything import EveryMethod
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

FIXED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    stateful_step_count=12,
    suppress_health_check=list(HealthCheck),
)


def test_random_walks():
    run_state_machine_as_test(EveryMethod, settings=settings(FIXED, max_examples=100))


@pytest.mark.ci
def test_many_random_walks():
    run_state_machine_as_test(EveryMethod, settings=settings(FIXED, max_examples=900))
