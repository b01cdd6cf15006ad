"""How large the tree is, and how many files a row passes through.

python -m benchmarks.size          # files, lines and lines of code of each part
python -m benchmarks.size walks    # files and functions that fits, predictions and commands enter
"""

import argparse
import ast
import sys
import threading
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("src", "paper", "tests", "benchmarks")
#: What is around the estimators: a reader of a command passes through it, and then meets the core.
PERIPHERY = (
    *("audit", "cli", "datasets", "default_model", "distributed", "io", "monitor", "plots"),
    *("preparation", "progress", "report", "tabular", "text", "torch", "versions"),
)
#: ``law="auto"``, which the size of the core leaves out.
AUTO = ("laws/auto.py", "laws/blend.py", "engine/trees.py")
#: Inside a file, code that is no function of its own to a reader.
NAMELESS = ("<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>")


def code_lines(path):
    """Lines that hold code: no docstrings, comments or blanks."""
    with path.open("rb") as file:
        skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING}
        skipped |= {tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
        tokens = [one for one in tokenize.tokenize(file.readline) if one.type not in skipped]
    used = {line for one in tokens for line in range(one.start[0], one.end[0] + 1)}
    return len(used - docstring_lines(path))


def docstring_lines(path):
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, owners) and ast.get_docstring(node) is not None:
            found.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return found


def public_names(path):
    """Names at the top of a module that other modules may use."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for t in targets for one in ast.walk(t) if isinstance(one, ast.Name)]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def size_table():
    """Part -> files, lines, lines of code, public names."""
    table, package = {}, ROOT / "src" / "localconformal"
    parts = {part: sorted((ROOT / part).rglob("*.py")) for part in PARTS}
    parts["core"] = [
        path
        for path in parts["src"]
        if not is_around(path) and str(path.relative_to(package)) not in AUTO
    ]
    for part, files in parts.items():
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        code, names = sum(map(code_lines, files)), sum(len(list(public_names(p))) for p in files)
        table[part] = (len(files), lines, code, names)
    return table


def traced(call):
    """Files of the library, and functions in them, that a call enters, also in its threads."""
    met, source = set(), str(ROOT / "src")

    def enter(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(source) and code.co_name not in NAMELESS:
            met.add((code.co_filename, code.co_qualname if hasattr(code, "co_qualname") else code))

    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {name for name, _ in met}, met


def walks():
    """Name -> files and functions of fit, of predict_interval, and of both."""
    import numpy as np
    from sklearn.linear_model import LinearRegression

    from localconformal import SLCPRegressor, SplitConformalRegressor

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)), rng.normal(size=600)
    line = LinearRegression()
    models = {
        "split": SplitConformalRegressor(line, random_state=0),
        "SLCP kernel": SLCPRegressor(line, law="kernel", n_jobs=1, random_state=0),
        "SLCP forest": SLCPRegressor(line, law="forest", n_jobs=1, random_state=0),
        "SLCP auto": SLCPRegressor(n_jobs=1, random_state=0),
    }
    found = {}
    for name, model in models.items():
        # Once before: what is imported or compiled on the way is no step of the walk.
        model.fit(X, y).predict_interval(X[:5])
        fit_files, fit = traced(lambda model=model: model.fit(X, y))
        ask_files, ask = traced(lambda model=model: model.predict_interval(X[:5]))
        both = (len(fit_files | ask_files), len(fit | ask))
        found[name] = ((len(fit_files), len(fit)), (len(ask_files), len(ask)), both)
    return found


def command_walks():
    """Command -> files around the core and in it, and functions of both."""
    import contextlib
    import io
    import os
    import tempfile

    import numpy as np
    import pandas as pd

    from localconformal.cli.app import app

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(size=400), "kind": rng.choice(["a", "b"], 400)})
    table["day"] = pd.date_range("2020-01-01", periods=400).astype(str)
    table["y"] = table["x"] * rng.normal(size=400)
    bounds = ["--y", "actual", "--lower", "lower", "--upper", "upper"]
    commands = {
        "run, split": ["run", "t.csv", "-t", "y", "--model", "linear", "--method", "split"],
        "run, kernel": ["run", "t.csv", "-t", "y", "--model", "linear", "--law", "kernel"],
        "predict": ["predict", "localconformal-run/model.skops", "t.csv"],
        "audit": ["audit", "localconformal-run/intervals.csv", *bounds],
    }
    found, before = {}, os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            table.to_csv("t.csv", index=False)
            for name, arguments in commands.items():
                with contextlib.redirect_stdout(io.StringIO()):
                    app(arguments, standalone_mode=False)
                    found[name] = traced(lambda given=arguments: app(given, standalone_mode=False))
        finally:
            os.chdir(before)
    return {name: by_part(*both) for name, both in found.items()}


def is_around(name):
    """Whether a file is one of those around the core."""
    inside = Path(name).relative_to(ROOT / "src" / "localconformal")
    return inside.parts[0].removesuffix(".py") in PERIPHERY


def by_part(files, functions):
    """(files, functions) around the core, then in it."""
    around = {name for name in files if is_around(name)}
    calls = sum(name in around for name, _ in functions)
    return (len(around), calls), (len(files) - len(around), len(functions) - calls)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.size", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["table", "walks"], default="table")
    if parser.parse_args(arguments).what == "walks":
        print(f"{'files / functions':<20}{'fit':>12}{'predict':>12}{'together':>12}")
        for name, pairs in walks().items():
            print(f"{name:<20}" + "".join(f"{f'{a} / {b}':>12}" for a, b in pairs))
        print(f"\n{'files / functions':<20}{'around':>12}{'core':>12}")
        for name, pairs in command_walks().items():
            print(f"{name:<20}" + "".join(f"{f'{a} / {b}':>12}" for a, b in pairs))
        return
    print(f"{'part':<12}{'files':>8}{'lines':>9}{'code':>9}{'names':>8}")
    for part, row in size_table().items():
        print(f"{part:<12}{row[0]:>8}{row[1]:>9,}{row[2]:>9,}{row[3]:>8}")


if __name__ == "__main__":
    main()
