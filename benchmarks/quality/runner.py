"""Run the tasks that have no record yet, seed by seed, on a few processes."""

import logging
import multiprocessing
import os
import threading
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, as_completed, wait
from itertools import product

from benchmarks.quality.protocol import VERSION
from benchmarks.quality.store import Store
from benchmarks.quality.task import Task, run, unfinished


def plan(base, datasets, methods, seeds, max_rows):
    """All tasks; the seed changes last, so a killed run leaves a balanced table."""
    return [
        Task(VERSION, base, max_rows, dataset, seed, method)
        for seed, dataset, method in product(range(seeds), datasets, methods)
    ]


def task_of(record):
    return Task(**{name: record[name] for name in Task._fields})


def gave_up(task, records):
    """Whether an earlier seed of the same method and data set ran out of time."""
    return any(
        record["status"] == "did not finish" and task_of(record)._replace(seed=task.seed) == task
        for record in records
    )


def prepare_worker():
    """Quiet, and gone when the run is killed: a pool's processes would wait for ever."""
    # MAPIE tells crossed quantiles through the root logger, a line a call.
    logging.disable(logging.WARNING)

    def follow():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def make_pool(jobs, cluster=None):
    """Fresh processes, as threads of a forked one may be stuck; or the workers of a cluster."""
    if cluster is not None:
        from distributed import Client

        return Client(cluster).get_executor(pure=False)
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=prepare_worker)


def execute(tasks, results, pool, jobs, progress):
    """Append a record for each task that has none, ``jobs`` of them at a time in the pool.

    Failed tasks have a record too, but run again when the benchmark does: the cause may have
    been mended. The newest record of a task counts.
    """
    store, selections = Store(results / "quality.jsonl"), Store(results / "quality_selection.jsonl")
    finished = {task_of(one) for one in store.records if one["status"] != "failed"}
    waiting = [task for task in tasks if task not in finished]
    progress.start(len(waiting), len(tasks))

    def keep(record, selection):
        store.append(record)
        if selection is not None:
            selections.append({**task_of(record)._asdict(), "candidates": selection})
        progress.done(record)

    running = set()
    for task in waiting:
        # Not submitted ahead of time: whether a method gave up shows as the run goes on.
        if gave_up(task, store.records):
            keep(unfinished(task, "an earlier seed did not finish"), None)
            continue
        running.add(pool.submit(run, task))
        if len(running) == jobs:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                keep(*future.result())
    for future in as_completed(running):
        keep(*future.result())
