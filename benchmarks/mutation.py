"""Mutation testing: small changes made to the mathematics, and whether the tests notice.

``OMP_NUM_THREADS=1 python -m benchmarks.mutation`` writes benchmarks/results/mutation.json. It
needs ``pip install cosmic-ray``, whose operators make the changes (another operator or
comparison, a number one up or down, a condition negated, a loop left out, a decorator taken away),
and a system that can fork.

Of the small packages every change is tried, of the large ones a sample (`COUNTS`): a number of
places in the source is drawn with a seed and one change made at each; a second change at a place
comes only when every place had one. A mutant is put before the tests of its package (`TESTS`),
those of its own module first, until one fails. Killed: a test failed, or nothing could be imported.
Timed out: one test took three times the processor time of the longest without a change (at least
20 s; and compiling, where loops are changed), or all of them three times theirs; a hanging suite is
noticed, so that this counts as killed. Survived: all tests passed.

Left out by rule, since they cannot matter: annotations, what follows ``raise`` (words of an error),
blocks under ``if TYPE_CHECKING``, and changes that are no Python. Docstrings are never changed.
Left out as well: bit operators in place of arithmetic, which fail at once and would flatter.
Survivors that make no difference that could be tested are named, each with its reason, in
benchmarks/mutation_equivalents.json: they count as survivors, and the share is told with and
without them.

No file of the package is changed: a forked process imports the mutant in place of the module. It
gets a copy of numba's cache without the loops that the change reaches, or a stale loop would hide
the mutant. Processes that a test starts import the package unchanged.
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from math import inf
from multiprocessing.sharedctypes import RawValue
from pathlib import Path

import numba
import pytest
import sklearn.ensemble
import sklearn.linear_model
import sklearn.neural_network
import sklearn.pipeline  # noqa: F401  (what tests import, once for all mutants)
from hypothesis import settings

from benchmarks.mutants import ROOT, SOURCE, draw, told
from benchmarks.speed.machine import describe

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.mutation"
RESULTS = Path(__file__).parent / "results" / "mutation.json"
#: Mutants, told as `key` tells them -> why they make no difference.
EQUIVALENT = json.loads((ROOT / "benchmarks" / "mutation_equivalents.json").read_text("utf-8"))
SEED = 0
#: Mutants a package, inf for all: as many as a few hours allow.
COUNTS = {"quantiles": inf, "scores": inf, "adjustments": inf, "laws": 80, "engine": 60}
MIN_SECONDS, MEMORY = 20, 8 << 30
#: Tests of each package in the order in which they run: quick and telling ones first.
TESTS = {
    "quantiles": ("test_quantiles*.py", "properties/test_properties_quantiles.py"),
    "scores": ("scores/test_scores_[!c]*.py", "scores/test_scores_contract.py"),
    "adjustments": (
        "adjustments/test_adjustments_[!c]*.py",
        "adjustments/test_adjustments_contract.py",
    ),
    "laws": (
        "laws/test_*.py",
        "contracts/test_frozen_parts.py",
        "properties/test_properties_laws.py",
        "contracts/test_laws.py",
    ),
    "engine": (
        "contracts/test_frozen_parts.py",
        "engine/test_engine_[!a]*.py",
        "engine/test_engine_a*.py",
        "properties/test_properties_engine.py",
        "engine/test_tensor_*.py",
    ),
}
#: Shared by all packages: what docstrings tell of defaults.
DEFAULTS = ROOT / "tests" / "test_architecture.py::test_documented_defaults_equal_the_signature"
#: A test file may start other processes: no use here, and slow.
PYTEST = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", "not without_a_package")
TOO_LONG = (signal.SIGPROF, signal.SIGXCPU, signal.SIGALRM)
OUTCOMES = ("killed", "timed out", "survived")


# ---- one mutant before its tests --------------------------------------------------------------


class Instead(MetaPathFinder):
    """Imports one module of the package from a changed source."""

    def __init__(self, path, source):
        self.path, self.source = str(path), source
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        loader = SourceFileLoader(name, self.path)
        loader.get_code = lambda _: compile(self.source, self.path, "exec")
        return spec_from_file_location(name, self.path, loader=loader)


def ordered_tests(package, path=None):
    """Test files in order, those which name a word of the module first, and its doctests."""
    files = [file for glob in TESTS[package] for file in sorted((ROOT / "tests").glob(glob))]
    if path is None:
        return files
    words = [word for word in path.stem.split("_") if word != "compiled"]
    own = [file for file in files if any(word in file.stem for word in words)]
    return [path, *dict.fromkeys(own + files), DEFAULTS]


def reached_loops(path):
    """Compiled modules whose machine code has something of this module in it."""
    reached = {path.stem}
    loops = {file.stem: file.read_text(encoding="utf-8") for file in SOURCE.glob("*/compiled*.py")}
    for _ in loops:
        for stem, text in loops.items():
            for source, names in re.findall(r"from \S+\.(\w+) import (.+)", text):
                if source in reached and names.strip() != "jit":
                    reached.add(stem)
    return reached & loops.keys()


class TimedTests:
    """Plugin of pytest: ends the process when one test takes too long; notes the longest."""

    def __init__(self, limit, longest):
        self.limit, self.longest = limit, longest

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self):
        signal.setitimer(signal.ITIMER_PROF, self.limit)
        start = time.process_time()
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            self.longest.value = max(self.longest.value, time.process_time() - start)


def child(mutant, tests, limits, longest, cache):
    """In the forked process: run the tests and end with pytest's code."""
    os.setsid()
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for_one, for_all = limits
    if for_all:
        resource.setrlimit(resource.RLIMIT_CPU, (for_all, for_all + 5))
        # For a mutant that waits and burns nothing.
        signal.alarm(6 * for_all)
    numba.config.CACHE_DIR = cache
    settings.register_profile("mutation", database=None, derandomize=True)
    settings.load_profile("mutation")
    sys.path.insert(0, str(SOURCE.parent))
    if mutant:
        finder = Instead(*mutant)
        sys.meta_path.insert(0, finder)
        # At once: pytest's own importer would take a file that it is asked to test from the disk.
        import_module(finder.name)
    plugins = [TimedTests(for_one, longest)]
    os._exit(int(pytest.main([*PYTEST, *map(str, tests)], plugins=plugins)))


def run(tests, warm, mutant=None, limits=(0, 0)):
    """Outcome of one run, and the processor seconds of all tests and of the longest."""
    loops = reached_loops(mutant[0]) if mutant else set()
    cache = tempfile.mkdtemp() if loops else warm
    if loops:
        unwanted = shutil.ignore_patterns(*(f"{stem}.*" for stem in loops))
        shutil.copytree(warm, cache, ignore=unwanted, dirs_exist_ok=True)
    longest = RawValue("d", 0.0)
    if not (process := os.fork()):
        try:
            child(mutant, tests, limits, longest, cache)
        finally:
            # An import that fails has not come to pytest.
            os._exit(1)
    _, status, used = os.wait4(process, 0)
    if loops:
        shutil.rmtree(cache)
    took = used.ru_utime + used.ru_stime
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in TOO_LONG:
        return "timed out", took, longest.value
    return ("survived" if status == 0 else "killed"), took, longest.value


# ---- a package --------------------------------------------------------------------------------


def try_package(package, count, seed, warm, again=None):
    """Record of one package; ``again``, an earlier record, has only its survivors tried."""
    outcome, compiling, _ = run(ordered_tests(package), warm)
    if outcome != "survived":
        raise SystemExit(f"the tests of {package} fail without any change")
    _, *took = run(ordered_tests(package), warm)
    print(
        f"{package}: its tests take {took[0]:.0f} s, with compiling {compiling:.0f} s", flush=True
    )
    drawn, sizes = draw(package, count, seed)
    wanted = None if again is None else [key(mutant) for mutant in again["survivors"]]
    tally, survivors = Counter(again["tally"] if again else {}), []
    for path, operator, source in drawn:
        mutant = told(path, operator, source)
        if wanted is not None and key(mutant) not in wanted:
            continue
        extra = compiling if reached_loops(path) else 0
        for_all, for_one = (int(max(MIN_SECONDS, 3 * seconds) + extra) for seconds in took)
        tests = ordered_tests(package, path)
        outcome, used, _ = run(tests, warm, (path, source), (for_one, for_all))
        print(f"{package} {outcome} {used:.0f} s {key(mutant)}", flush=True)
        tally[outcome] += 1
        tally["survived"] -= wanted is not None
        survivors += [mutant] if outcome == "survived" else []
    return {**sizes, "seconds_of_the_tests": round(took[0], 1), **summarise(tally, survivors)}


def key(mutant):
    return f"{mutant['module']}: {mutant['before']} -> {mutant['after']}"


def summarise(tally, survivors):
    """Counts, and the share killed with and without survivors that make no difference."""
    for mutant in survivors:
        if key(mutant) in EQUIVALENT:
            mutant["no_difference_because"] = EQUIVALENT[key(mutant)]
    tried, same = sum(tally.values()), sum("no_difference_because" in m for m in survivors)
    noticed = tried - tally["survived"]
    return {
        "tried": tried,
        "tally": {name: tally[name] for name in OUTCOMES},
        "share_killed": round(noticed / tried, 3),
        "survivors_without_a_difference": same,
        "share_killed_of_the_others": round(noticed / (tried - same), 3),
        "survivors": survivors,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", nargs="+", choices=TESTS, default=[*TESTS])
    parser.add_argument("--count", type=int, help="mutants a package; the default is in COUNTS")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--survivors", action="store_true", help="try those of the file again")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    known = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    done = known.get("packages", {})
    with tempfile.TemporaryDirectory() as warm:
        for package in args.packages:
            start, before = time.perf_counter(), done.get(package) if args.survivors else None
            count = args.count or COUNTS[package]
            found = try_package(package, count, args.seed, warm, before)
            command = f"{COMMAND} --packages {package} --seed {args.seed}"
            seconds = round(time.perf_counter() - start)
            done[package] = {"command": command, "seconds": seconds, **found}
            record = {"packages": done, "machine": describe()}
            args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            print({k: v for k, v in done[package].items() if k != "survivors"}, flush=True)


if __name__ == "__main__":
    main()
