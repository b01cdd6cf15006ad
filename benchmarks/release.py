"""The wheel and the sdist, installed and used in empty environments: ``nox -s release`` runs it.

``python benchmarks/release.py DIST`` takes the two files in the folder DIST. Each is installed
with the core dependencies alone, and then with the extra ``cli``, from pip's cache, which a
download before the timed installs fills. With ``--record``, what was measured is added to
benchmarks/results/install.json. It needs pip and nothing else.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import time
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT, RESULTS = Path(__file__).parents[1], Path(__file__).parent / "results" / "install.json"
FACE = {"README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "LICENSE", "pyproject.toml"}
MADE = {"PKG-INFO", ".gitignore"}

IMPORT = """
import sys, time
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
assert not {{"numba", "matplotlib", "dask", "torch"}} & set(sys.modules)
"""
TABLE = """
import numpy as np
from sklearn.datasets import load_diabetes
X, y = load_diabetes(return_X_y=True)
header = ",".join([*(f"x{j}" for j in range(10)), "target"])
np.savetxt("table.csv", np.column_stack([X, y]), delimiter=",", header=header, comments="")
"""


def run(*command, **options):
    """What a command prints; if it fails, what it said."""
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, **options
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def size(folder):
    """Bytes of what was installed, without what using it compiled."""
    installed = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    return sum(path.stat().st_size for path in installed if path.is_file())


def check_contents(wheel, sdist):
    """The wheel has the committed package and its metadata, the sdist what the wheel is made of."""
    committed = run("git", "-C", ROOT, "ls-files", "src/localconformal").split()
    with ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
        (licence,) = [name for name in packed.namelist() if name.endswith("/LICENSE")]
    assert names == {name.removeprefix("src/") for name in committed}, names ^ set(committed)
    with tarfile.open(sdist) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    assert inside == {*committed, *FACE, *MADE}, inside ^ {*committed, *FACE, *MADE}
    return licence


class Environment:
    """An empty environment, away from the clone and from what the shell has set."""

    def __init__(self, folder):
        run(sys.executable, "-m", "venv", "--without-pip", folder / "env")
        self.folder = folder
        self.programs = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        self.options = {"cwd": folder, "env": {**kept, "OMP_NUM_THREADS": "1"}}

    def pip(self, *arguments):
        python = self.programs / "python"
        return run(sys.executable, "-m", "pip", "--python", python, *arguments, **self.options)

    def __call__(self, program, *arguments):
        return run(self.programs / program, *arguments, **self.options)

    def install(self, what):
        """Seconds, and megabytes of site-packages then."""
        start = time.perf_counter()
        self.pip("install", "-q", "--no-compile", what)
        seconds = time.perf_counter() - start
        self.pip("check")
        asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(self("python", "-c", asked).strip())
        return {"seconds": round(seconds, 1), "megabytes": round(size(packages) / 1e6, 1)}

    def seconds_of(self, statement):
        """The quickest of three imports, each in a process of its own."""
        code = IMPORT.format(statement=statement)
        return round(min(float(self("python", "-c", code)) for _ in range(3)), 3)


def use_core(env):
    """What must work with the core dependencies alone."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.search(r"^```python\n(.*?)^```$", readme, re.M | re.S)[1]
    env("python", "-c", f"{lines}\nassert model.predict_interval(X[400:]).shape == (42, 2)")
    env("python", "-c", "from localconformal import *; SLCPRegressor, KernelLaw, metrics, report")
    asked = [str(env.programs / "localconformal"), "demo"]
    refused = subprocess.run(asked, capture_output=True, text=True, check=False, **env.options)
    assert refused.returncode == 1
    assert "pip install 'localconformal[cli]'" in refused.stderr, refused.stderr
    statements = ("import localconformal", "from localconformal import SLCPRegressor")
    imports = {one: env.seconds_of(one) for one in (*statements, "import sklearn.ensemble")}
    passed = ["pip check", "the README's code", "import *", "demo names the extra it needs"]
    return {"import_seconds": imports, "passed": passed}


def use_commands(env):
    """What must work with the extra cli."""
    env("localconformal", "demo", "--out", "demo")
    env("python", "-c", TABLE)
    env("localconformal", "run", "table.csv", "--target", "target", "--out", "run")
    env("localconformal", "predict", "run/model.skops", "table.csv", "--out", "new.csv")
    for name in ("demo/demo.png", "demo/report.html", "run/intervals.csv", "new.csv"):
        assert (env.folder / name).stat().st_size, name
    return {"passed": ["pip check", "demo", "run", "predict"]}


def try_package(package, folder):
    """One of the two files, in an environment of its own."""
    folder.mkdir()
    env = Environment(folder)
    core = env.install(package) | use_core(env)
    version = env("python", "-c", "import localconformal; print(localconformal.__version__)")
    commands = env.install(f"{package}[cli]") | use_commands(env)
    return {
        "package": package.name,
        "version": version.strip(),
        "bytes": package.stat().st_size,
        "python": platform.python_version(),
        "core": core,
        "cli": commands,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dist", type=Path)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    (wheel,), (sdist,) = (sorted(given.dist.resolve().glob(one)) for one in ("*.whl", "*.tar.gz"))
    check_contents(wheel, sdist)
    with TemporaryDirectory() as folder:
        found = []
        for package in (wheel, sdist):
            run(sys.executable, "-m", "pip", "download", "-q", "-d", folder, f"{package}[cli]")
            found.append(try_package(package, Path(folder, package.suffix[1:])))
            print(json.dumps(found[-1], indent=1), flush=True)
    if given.record:
        known = json.loads(RESULTS.read_text(encoding="utf-8"))
        again = {(one["package"], one["python"]) for one in found}
        kept = [o for o in known.get("releases", []) if (o["package"], o["python"]) not in again]
        known["releases"] = kept + found
        RESULTS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
