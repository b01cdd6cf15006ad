"""The service of examples/serving beside the bare model, and labels under killed workers.

``python -m benchmarks.serving`` writes benchmarks/results/serving.json. The service is a process of
its own on this machine, and clients share its cores. Rows are asked for one by one, of the
model in this process and over HTTP in turns; latency is what a client sees.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import numpy as np
import pandas as pd

from benchmarks.harness import describe_machine
from localconformal.io import load_model, save_model
from localconformal.tabular import fit_table_model
from localconformal.versions import versions

APP = Path(__file__).parents[1] / "examples" / "serving"
RESULTS = Path(__file__).parent / "results" / "serving.json"
MODELS = {
    "split conformal, linear": {"method": "split", "model": "linear"},
    "SLCP, law auto (the default)": {"method": "slcp"},
}
ROWS, BATCH, PATIENCE = 5_000, 1_000, 120


def table(n, seed):
    """Homes: numbers, a label and a day; and the price."""
    rng = np.random.default_rng(seed)
    size, region = rng.uniform(20, 200, n), rng.choice(["north", "south", "east"], n)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    price = 3 * size + 50 * (region == "north") + 0.5 * size * rng.normal(size=n)
    known = {"size": size, "rooms": rng.integers(1, 6, n), "region": region}
    return pd.DataFrame({**known, "sold": days.strftime("%Y-%m-%d"), "price": price})


@contextmanager
def service(model_file, labels, *, workers=1):
    """A client of the service, in processes of its own; all of it ends with the block."""
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(APP), "--factory"]
    command += ["app:make_app", "--port", "0", "--workers", str(workers), "--no-access-log"]
    environment = {**os.environ, "MODEL": str(model_file), "LABELS": str(labels)}
    # A group to end as one, in the session of the client: Linux shares processors by sessions, so
    # in one of its own the service would get more of a busy machine than the bare model does.
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=os.setpgrp
    ) as process:
        try:
            said = ""
            while not (found := re.search(r"running on (http://\S+)", said)):
                if not (line := process.stderr.readline()):
                    raise RuntimeError(said)
                said += line
            # A pipe that nobody reads would block the service when it is full.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            with httpx.Client(base_url=found[1], timeout=PATIENCE) as client:
                patient(client.get, "/health")
                yield client
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def patient(ask, *given, **named):
    """The answer to a request that is sent again while nobody answers."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ask(*given, **named)
        except httpx.TransportError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def timed(each, **asks):
    """Latency that half of the calls and 99 % of them stay under, calls per second, and CPU time.

    ``asks`` has a name -> a function to call with each, and one that tells the seconds of CPU that
    whoever answers has used. They take turns, so that a busy machine disturbs all of them alike.
    """
    seconds, cpu = {name: [] for name in asks}, dict.fromkeys(asks, 0.0)
    for one in each:
        for name, (ask, used) in asks.items():
            before, begin = used(), time.perf_counter()
            ask(one)
            seconds[name].append(time.perf_counter() - begin)
            cpu[name] += used() - before
    found = {}
    for name, took in seconds.items():
        n, (p50, p99) = len(took), np.quantile(took, [0.5, 0.99])
        figures = {"p50_ms": 1e3 * p50, "p99_ms": 1e3 * p99, "cpu_ms": 1e3 * cpu[name] / n}
        figures["per_s"] = n / sum(took)
        found[name] = {"calls": n, **{key: round(float(x), 2) for key, x in figures.items()}}
    return found


def cpu_of(client):
    """The seconds of CPU that the worker behind a client has used, as a function."""
    stat = Path(f"/proc/{client.get('/health').json()['worker']}/stat")

    def used():
        fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    return used


def asker(client, path):
    """Send one request, which must be answered."""

    def ask(body):
        client.post(path, json=body).raise_for_status()

    return ask


def crowd(url, rows, clients):
    """Requests per second of several clients at once."""

    def work(some):
        with httpx.Client(base_url=url, timeout=PATIENCE) as own:
            for row in some:
                asker(own, "/predict")({"rows": [row]})

    threads = [threading.Thread(target=work, args=(rows[k::clients],)) for k in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return round(len(rows) / (time.perf_counter() - start), 1)


def measure(name, n, folder):
    """One model: alone, behind the service, and behind two workers."""
    fitted = fit_table_model(table(ROWS, 0), "price", **MODELS[name])
    file = save_model(fitted, folder / "model.skops")
    model, new = load_model(file), table(n, 1)
    y, rows = new.pop("price"), new.to_dict("records")
    few, batch = rows[: n // 5], (rows * BATCH)[:BATCH]
    labels = [{"id": f"{k}", "rows": [row], "y": [y[k]]} for k, row in enumerate(few)]
    with service(file, folder / "one.jsonl") as client:
        ask, tell, used = asker(client, "/predict"), asker(client, "/labels"), cpu_of(client)
        both = {
            "model": (model.predict, time.process_time),
            "service": (lambda some: ask({"rows": some}), used),
        }
        # Not kept: what is compiled or loaded once.
        timed([[row] for row in rows[:20]], **both)
        found = {"one row": timed([[row] for row in rows], **both)}
        found[f"{BATCH} rows"] = timed([batch] * 5, **both)
        explained = [{"rows": [row], "explain": True} for row in rows[: n // 50]]
        found["one row, explained"] = timed(explained, service=(ask, used))
        found["one label, on disk"] = timed(labels, service=(tell, used))
        found["four clients"] = {"per_s": crowd(str(client.base_url), few, 4)}
    with service(file, folder / "two.jsonl", workers=2) as client:
        crowd(str(client.base_url), rows[:40], 4)
        found["four clients, two workers"] = {"per_s": crowd(str(client.base_url), few, 4)}
    return found


def kill_workers(n, kills, folder):
    """Labels of three clients while workers are killed: how many acknowledged ones are lost."""
    name = "split conformal, linear"
    file = save_model(fit_table_model(table(ROWS, 0), "price", **MODELS[name]), folder / "k.skops")
    new, labels, acknowledged = table(n, 2), folder / "killed.jsonl", []
    y, rows = new.pop("price"), new.to_dict("records")

    def tell(url, mine):
        with httpx.Client(base_url=url, timeout=PATIENCE) as own:
            for k in mine:
                body = {"id": f"{k}", "rows": [rows[k]], "y": [y[k]]}
                patient(own.post, "/labels", json=body).raise_for_status()
                acknowledged.append(f"{k}")

    with service(file, labels, workers=2) as client:
        url = str(client.base_url)
        threads = [threading.Thread(target=tell, args=(url, range(k, n, 3))) for k in range(3)]
        for thread in threads:
            thread.start()
        for kill in range(1, kills + 1):
            while len(acknowledged) < kill * n / (kills + 1) and threads[0].is_alive():
                time.sleep(0.005)
            # By a connection of its own, so that either worker may answer.
            worker = patient(httpx.get, f"{url}/health", timeout=PATIENCE).json()["worker"]
            os.kill(worker, signal.SIGKILL)
        for thread in threads:
            thread.join()
    with service(file, labels) as client:
        state = client.get("/health").json()
    kept = [json.loads(line)["id"] for line in labels.read_text("utf-8").splitlines()[1:]]
    return {
        "labels": n,
        "workers_killed": kills,
        "acknowledged": len(acknowledged),
        "acknowledged_and_lost": len(set(acknowledged) - set(kept)),
        "counted_twice": len(kept) - len(set(kept)),
        "after_the_start": {"labels": state["labels"], "summary": state["summary"]},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    command = f"python -m benchmarks.serving --requests {args.requests} --kills {args.kills}"
    found = {"command": command, "models": {}}
    with TemporaryDirectory() as folder:
        for place, name in enumerate(MODELS):
            own = Path(folder, str(place))
            own.mkdir()
            found["models"][name] = measure(name, args.requests, own)
            print(name, json.dumps(found["models"][name], indent=1), flush=True)
        found["killed"] = kill_workers(args.requests, args.kills, Path(folder))
    found["machine"] = {**describe_machine(), "niceness": os.nice(0)}
    found["packages"] = versions(["fastapi", "uvicorn", "pydantic", "httpx"])
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["killed"], indent=1))


if __name__ == "__main__":
    main()
