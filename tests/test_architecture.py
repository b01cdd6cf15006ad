"""The shape of the code base: layers, lazy imports, documented defaults, short files."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import localconformal

SOURCE = Path(localconformal.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
#: A module imports only from those above it.
LAYERS = ["io.files", "text", "versions", "progress", "quantiles", "rows", "parallel"]
LAYERS += ["columns", "io.tables", "preparation", "default_model", "models", "regions", "metrics"]
LAYERS += ["scores", "engine", "laws", "torch.tensors", "adjustments", "composition"]
LAYERS += ["corrections", "conditional", "densities", "cross", "distribution", "explanation"]
LAYERS += ["regressors", "datasets", "audit", "monitor", "plots", "report", "io", "distributed"]
LAYERS += ["torch", "tabular", "mlflow", "cli"]
MAX_FILE, MAX_BODY = 800, 60


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def relative(path):
    return str(path.relative_to(SOURCE))


def layer(module):
    """Of a module without the package's name: its own, or that of its package."""
    return module if module in LAYERS else module.split(".")[0]


def imported_layers(path):
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)} has a relative import"
            # `from localconformal import laws` names the layer after the import.
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = inside if node.module == "localconformal" else [node.module]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "localconformal" and rest:
                home = localconformal._HOME_OF.get(rest, name)
                yield layer(home.removeprefix("localconformal."))


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_a_module_imports_only_from_those_above_it():
    for path in FILES:
        if path != SOURCE / "__init__.py":
            own = layer(relative(path).removesuffix(".py").replace("/", "."))
            allowed = {"__version__", *LAYERS[: LAYERS.index(own) + 1]}
            assert set(imported_layers(path)) <= allowed, relative(path)


def test_files_and_functions_are_short():
    for path in FILES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE, relative(path)
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                assert length <= MAX_BODY, f"{relative(path)}: {node.name}"


def test_the_import_is_lazy_and_no_name_loads_an_optional_package():
    heavy = ["numba", "matplotlib", "dask", "torch", "sklearn", "pandas", "polars"]
    for code, kept in (
        ("import localconformal", heavy),
        ("from localconformal import *", heavy[:4]),
    ):
        assert run(f"import sys; {code}; print([m for m in {kept} if m in sys.modules])") == "[]\n"


BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pandas", "matplotlib", "typer", "rich"}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Blocked())
from localconformal import *
import localconformal
print(sorted(set(localconformal.__all__) - set(globals())))
X = [[float(i)] for i in range(60)]
print(SplitConformalRegressor(random_state=0).fit(X, range(60)).predict_interval(X).shape)
"""


@pytest.mark.ci
def test_the_public_names_need_the_core_dependencies_alone():
    assert run(BLOCKED).splitlines() == ["[]", "(60, 2)"]


def public_objects():
    for name in localconformal.__all__:
        value = getattr(localconformal, name)
        if not inspect.ismodule(value):
            yield name, value
            continue
        for inner in getattr(value, "__all__", vars(value)):
            member = getattr(value, inner)
            ours = str(getattr(member, "__module__", "")).startswith(value.__name__)
            if ours and not inner.startswith("_") and callable(member):
                yield f"{name}.{inner}", member


PUBLIC = dict(public_objects())


def test_public_names_exist_once_and_are_documented():
    assert len(set(localconformal.__all__)) == len(localconformal.__all__)
    assert set(localconformal.__all__) <= set(dir(localconformal))
    for name in localconformal.__all__:
        assert (getattr(localconformal, name).__doc__ or "").strip(), name
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = localconformal.Nonsense


def documented_defaults(item):
    """(owner, name, default) of "name : ..., default=VALUE" lines, methods' included."""
    methods = vars(item).values() if inspect.isclass(item) else []
    for owner in (item, *filter(inspect.isfunction, methods)):
        docstring = inspect.cleandoc(owner.__doc__ or "")
        for name, value in re.findall(r"^(\w+) : (?:.*, )?default=(.+)$", docstring, re.MULTILINE):
            yield owner, name, ast.literal_eval(value)


def documented_parameters(item):
    docstring = inspect.cleandoc(item.__doc__)
    section = re.search(r"^Parameters\n-+\n(.*?)(?:\n\n\w+\n-|\Z)", docstring, re.S | re.M)
    return section and set(re.findall(r"^(\w+) :", section[1], re.M))


def test_documented_parameters_and_defaults_equal_the_signature():
    n_defaults = 0
    for name, item in PUBLIC.items():
        if inspect.isclass(item) and (documented := documented_parameters(item)) is not None:
            assert documented == set(inspect.signature(item).parameters), name
        for owner, parameter, value in documented_defaults(item):
            default = inspect.signature(owner).parameters[parameter].default
            assert (default, type(default)) == (value, type(value)), f"{name}: {parameter}"
            n_defaults += 1
    assert n_defaults > 20


#: Whole programs, and what they alone call.
MAY_FILTER = ("parallel.py", "cli/console.py", "tabular/compare.py")


def test_no_fit_sets_filters_of_warnings():
    """Python has one list of them for all threads: a fit would change those of its neighbours."""
    setters = ("catch_warnings", "simplefilter", "filterwarnings")
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(name in path.read_text(encoding="utf-8") for name in setters)
    }
    assert found == set(MAY_FILTER)
