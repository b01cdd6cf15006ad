"""What the names of the extra say where PyTorch and skorch are missing."""

import subprocess
import sys

import pytest

import localconformal.torch

WITHOUT = """
import importlib.util, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing}:
            raise ModuleNotFoundError(name, name=name)

def find_spec(name, package=None, found=importlib.util.find_spec):
    return None if name in {missing} else found(name, package)

sys.meta_path.insert(0, Missing())
importlib.util.find_spec = find_spec
"""


def run(code, missing):
    start = WITHOUT.replace("{missing}", repr(missing))
    return subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, check=False
    )


def test_a_missing_package_is_named_with_its_remedy():
    done = run("from localconformal.torch import TorchEmbedding", {"torch"})
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: TorchEmbedding needs PyTorch")
    assert "pip install 'localconformal[torch]'" in last


@pytest.mark.ci
def test_experiments_run_without_and_say_what_is_left_out():
    code = "from paper.models import FAMILIES\nprint(FAMILIES['neural_net'].left_out)"
    done = run(code, {"torch", "skorch"})
    assert done.returncode == 0, done.stderr
    assert "left out" in done.stdout


@pytest.mark.ci
def test_neither_the_library_nor_its_experiments_load_torch_before_it_is_used():
    code = (
        "import sys, localconformal, localconformal.torch, paper.models\n"
        "print([name for name in ('torch', 'skorch') if name in sys.modules])"
    )
    assert run(code, set()).stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = localconformal.torch.Nonsense
