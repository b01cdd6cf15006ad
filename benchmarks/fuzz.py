"""Random walks over the public interface for a given time, and what came of every step.

``python -m benchmarks.fuzz`` writes benchmarks/results/fuzz.json. The walks are those of
tests/hardening: estimators of every kind, made, fitted, calibrated, asked, pickled and cloned in
any order, with good and bad rows, responses and parameters. The same seed and number of batches
walk the same ways; how many batches there are is a matter of time.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from benchmarks.speed.machine import describe

RESULTS = Path(__file__).parent / "results" / "fuzz.json"
TESTS = Path(__file__).parents[1] / "tests"
# Tests are no package; their helpers are found as pytest finds them.
sys.path[:0] = [str(TESTS), str(TESTS / "hardening")]

from fuzz_everything import EveryMethod  # noqa: E402

WALKS, STEPS = 20, 12
#: A walk is not made shorter once it has failed: counting needs no smallest example.
SETTINGS = settings(
    max_examples=WALKS,
    stateful_step_count=STEPS,
    phases=[Phase.generate],
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def walk_batch(number):
    """One batch of walks; what was wrong with it, or None."""
    machine = seed(number)(type("EveryMethod", (EveryMethod,), {}))
    try:
        run_state_machine_as_test(machine, settings=SETTINGS)
    # A hang is no Exception.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"seed": number, "said": f"{type(error).__name__}: {error}"}
    return None


def summarise(tally):
    """Steps by call and outcome, and walks by estimator."""
    steps = {name: count for name, count in tally.items() if ": " in name and "walk" not in name}
    outcomes = Counter()
    for name, count in steps.items():
        outcomes[name.partition(": ")[2]] += count
    return {
        "sequences": tally["walks"],
        "steps": sum(steps.values()),
        "outcomes": dict(outcomes.most_common()),
        "steps_by_call": dict(sorted(steps.items())),
        "sequences_by_estimator": {
            name.removeprefix("walk: "): count
            for name, count in sorted(tally.items())
            if name.startswith("walk: ")
        },
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first batch")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    start, number, defects = time.perf_counter(), args.seed, []
    EveryMethod.tally.clear()
    while time.perf_counter() - start < args.seconds:
        found = walk_batch(number)
        defects += [] if found is None else [found]
        number += 1
    found = {
        "command": f"python -m benchmarks.fuzz --seconds {args.seconds:g} --seed {args.seed}",
        "seconds": time.perf_counter() - start,
        "batches": number - args.seed,
        **summarise(EveryMethod.tally),
        "defects": len(defects),
        "defects_found": defects,
        "machine": describe(),
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: found[name] for name in ("sequences", "steps", "outcomes", "defects")}))
    return bool(defects)


if __name__ == "__main__":
    sys.exit(main())
