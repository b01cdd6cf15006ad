import pytest
from sklearn.base import is_regressor

import localconformal
from localconformal.regressors.table import METHODS
from localconformal.workflow.methods import NEEDS_MORE, SHORT_NAMES, find_method, named_methods


def test_every_estimator_has_one_short_name():
    assert sorted(SHORT_NAMES.values()) == sorted(method.estimator for method in METHODS)
    public = {name for name in localconformal.__all__ if name.endswith("Regressor")}
    assert set(SHORT_NAMES.values()) == public
    assert set(NEEDS_MORE) <= set(SHORT_NAMES)


@pytest.mark.parametrize("method", named_methods(), ids=lambda method: method.name)
def test_a_method_is_found_by_either_name(method):
    for name in (method.name, method.name.upper(), method.facts.estimator):
        assert find_method(name) == method
    assert is_regressor(method.estimator())


@pytest.mark.parametrize(("name", "hint"), [("slpc", "slcp"), ("Spilt", "split"), ("", None)])
def test_an_unknown_name_is_one_sentence(name, hint):
    with pytest.raises(ValueError, match="There is no method") as stop:
        find_method(name)
    assert hint is None or f"did you mean {hint}?" in str(stop.value)
