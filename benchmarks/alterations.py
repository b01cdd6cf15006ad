"""Model files with something changed in them: refused in one sentence, or the same answers.

``python -m benchmarks.alterations`` alters a small model file 10,000 times at random and writes
benchmarks/results/alterations.json. The digest is never made to fit again: these are accidents and
clumsy edits. Files that were crafted with a digest that fits are in tests/hardening.
"""

import argparse
import io
import json
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression

from benchmarks.speed.machine import describe
from localconformal import KernelLaw, SLCPRegressor
from localconformal.io.models import ModelFileError, load_model, model_bytes

RESULTS = Path(__file__).parent / "results" / "alterations.json"
TRIES, SEED = 10_000, 0
REFUSED, IDENTICAL = "refused in one sentence", "loaded, answers bit-identical"
HARMLESS = (REFUSED, IDENTICAL)
#: Audit events of Python that a file could only cause by having code run.
CODE_EVENTS = ("exec", "os.", "subprocess.", "pickle.", "ctypes.", "socket.", "shutil.", "marshal.")


class CodeWatch:
    """Counts what Python does between `on` and off; an audit hook cannot be taken out again."""

    def __init__(self):
        self.is_on = False
        self.seen = Counter()
        sys.addaudithook(self._look)

    def _look(self, event, _):
        if self.is_on and event.startswith(CODE_EVENTS):
            self.seen[event] += 1

    def __enter__(self):
        self.is_on = True
        return self

    def __exit__(self, *_):
        self.is_on = False


def small_model():
    """A fitted localized model with all its parts, and rows to ask it about."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + (0.5 + np.abs(X[:, 1])) * rng.normal(size=120)
    model = SLCPRegressor(LinearRegression(), law=KernelLaw(), random_state=0).fit(X, y)
    return model, rng.normal(size=(20, 2))


def answers(model, X):
    """All that is compared, as bytes."""
    parts = (model.predict(X), model.predict_interval(X), model.predict_interval(X, [0.5, 0.8]))
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


# ---- what is done to a file -------------------------------------------------------------------


def members(data):
    """Name -> content, of a zip file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def packed(entries):
    """A zip file of these entries, its check sums right."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Duplicate name")
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


def flip_bits(data, rng):
    content = bytearray(data)
    for place in rng.integers(len(data), size=rng.integers(1, 9)):
        content[place] ^= 1 << int(rng.integers(8))
    return bytes(content)


def replace_bytes(data, rng):
    start = int(rng.integers(len(data)))
    count = min(int(rng.integers(1, 65)), len(data) - start)
    return data[:start] + rng.bytes(count) + data[start + count :]


def truncate(data, rng):
    return data[: rng.integers(len(data))]


def insert_bytes(data, rng):
    place = int(rng.integers(len(data) + 1))
    return data[:place] + rng.bytes(int(rng.integers(1, 65))) + data[place:]


def swap_members(data, rng):
    entries = members(data)
    i, j = rng.choice(len(entries), 2, replace=False)
    (first, one), (second, other) = entries[i], entries[j]
    entries[i], entries[j] = (first, other), (second, one)
    return packed(entries)


def duplicate_member(data, rng):
    entries = members(data)
    i, j = rng.integers(len(entries), size=2)
    return packed([*entries, (entries[i][0], entries[j][1])])


def drop_member(data, rng):
    entries = members(data)
    entries.pop(int(rng.integers(len(entries))))
    return packed(entries)


def replace_member(data, rng):
    """Other content of the same kind where it is an array, anything elsewhere."""
    entries = members(data)
    place = int(rng.integers(len(entries)))
    name, content = entries[place]
    made = io.BytesIO()
    if name.endswith(".npy") and rng.uniform() < 0.7:
        array = np.load(io.BytesIO(content))
        np.save(made, rng.permutation(array.ravel()).reshape(array.shape) * array.dtype.type(2))
    else:
        made.write(rng.bytes(len(content)))
    entries[place] = (name, made.getvalue())
    return packed(entries)


ALTERATIONS = {
    "bits flipped": flip_bits,
    "bytes replaced": replace_bytes,
    "truncated": truncate,
    "bytes inserted": insert_bytes,
    "members exchanged": swap_members,
    "member twice": duplicate_member,
    "member missing": drop_member,
    "member replaced": replace_member,
}


# ---- what comes of it -------------------------------------------------------------------------


def outcome(path, expected, X, watch):
    """What became of one file; anything but the two harmless ends is told by its name."""
    try:
        with watch:
            found = answers(load_model(path), X)
    except ModelFileError as error:
        said = str(error)
        is_sentence = said.endswith(".") and "\n" not in said and said.isprintable()
        return REFUSED if is_sentence else f"refused in other words: {said!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return IDENTICAL if found == expected else "loaded silently wrong"


def run(tries, seed=SEED):
    """Outcomes by alteration -> count, and events of running code -> count."""
    model, X = small_model()
    data, expected, watch = model_bytes(model), answers(model, X), CodeWatch()
    found = {name: Counter() for name in ALTERATIONS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        path.write_bytes(data)
        # Modules are loaded by then, and what runs later runs for the file.
        assert answers(load_model(path), X) == expected
        for number in range(tries):
            name = [*ALTERATIONS][number % len(ALTERATIONS)]
            rng = np.random.default_rng([seed, number])
            path.write_bytes(ALTERATIONS[name](data, rng))
            found[name][outcome(path, expected, X, watch)] += 1
    return found, watch.seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=TRIES)
    tries = parser.parse_args().tries
    start = time.perf_counter()
    found, events = run(tries)
    total = sum(found.values(), Counter())
    record = {
        "command": "OMP_NUM_THREADS=1 python -m benchmarks.alterations",
        "tries": tries,
        "seed": SEED,
        "seconds": round(time.perf_counter() - start, 1),
        "bytes_of_the_file": len(model_bytes(small_model()[0])),
        "outcomes": {name: total[name] for name in (REFUSED, IDENTICAL)},
        "anything_else": sum(count for name, count in total.items() if name not in HARMLESS),
        "code_events": dict(events),
        "by_alteration": {name: dict(counts) for name, counts in found.items()},
        "machine": describe(),
    }
    RESULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: record[key] for key in record if key != "machine"}, indent=1))


if __name__ == "__main__":
    main()
