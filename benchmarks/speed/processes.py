"""What only a process of its own can show: the first call, with warm and cold cache; memory."""

import json
import os
import subprocess
import sys
import tempfile

FIRST_CALL = """
import json, time
from benchmarks.speed.data import rows
from benchmarks.speed.methods import Law
import sklearn.ensemble, sklearn.neighbors, sklearn.cluster, scipy.linalg
(X, v), (Q, _) = rows(20_000, "reference"), rows(1000, "query")
def seconds(work):
    start = time.perf_counter(); work(); return time.perf_counter() - start
result = {"import_numba": seconds(lambda: __import__("numba"))}
for engine in ("exact", "sketch"):
    for call in ("first", "second"):
        result[f"{engine}_{call}"] = seconds(lambda: Law(engine, 0).fit(X, v).query(Q))
print(json.dumps(result))
"""

MILLION = r"""
import json, re
from pathlib import Path
from benchmarks.speed.data import rows
from benchmarks.speed.methods import Law
(X, v), (Q, _) = rows(1_000_000, "reference"), rows(1_000_000, "query")
status = Path("/proc/self/status")
peak = lambda: int(re.search(r"VmHWM:\s*(\d+)", status.read_text())[1]) / 2**20
before = peak()
Law("auto", 0).fit(X, v).query(Q)
print(json.dumps({"gigabytes_with_data": before, "gigabytes_at_peak": peak()}))
"""


def run(code, **environment):
    """What a fresh Python prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def least_of(code, repeats=3):
    """Figure by figure, the least of some fresh processes."""
    results = [run(code) for _ in range(repeats)]
    return {key: min(one[key] for one in results) for key in results[0]}


def first_calls():
    """Seconds of the first and the second call in a fresh process."""
    run(FIRST_CALL)
    warm = least_of(FIRST_CALL)
    with tempfile.TemporaryDirectory() as folder:
        cold = run(FIRST_CALL, NUMBA_CACHE_DIR=folder)
    pauses = {e: warm[f"{e}_first"] - warm[f"{e}_second"] for e in ("exact", "sketch")}
    return {"warm_cache": warm, "cold_cache": cold, "warm_pause_seconds": pauses}


def peak_memory():
    """Gigabytes of a process that fits and asks a million by a million.

    From /proc (Linux): the resource module would count a large parent's memory too.
    """
    return run(MILLION)
