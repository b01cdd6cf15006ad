"""One fitted model in many threads and processes at once answers as it does alone."""

import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_info

import localconformal as lc
from inner import FEW, run_in_threads
from registry import ci_but, optional, smooth_data

N_THREADS, N_PROCESSES = 16, 4
LINE, ASKED = LinearRegression(), smooth_data(300, seed=7)[0]
#: Every thread also asks for a level that no other asks for.
LEVELS = np.linspace(0.3, 0.95, N_THREADS)
TREES = RandomForestRegressor(6, min_samples_leaf=20, random_state=0, n_jobs=1)
STACK = lc.StackedLaw([lc.ScaledLaw(), lc.LearnedLaw(), "kernel", lc.ForestLaw(TREES)])
LAWS = {
    "exact": lc.KernelLaw(engine="exact"),
    "sketch": lc.KernelLaw(engine="sketch", tolerance=0.5),
    "neighbors": lc.NeighborsLaw(n_neighbors=20),
    "neighbors by a tree": lc.NeighborsLaw(n_neighbors=20),
    "plain forest": lc.ForestLaw(TREES),
    "compiled forest": lc.ForestLaw(TREES),
    "stack": STACK,
    "auto": lc.AutoLaw(effort="low"),
    "tensors": lc.KernelLaw(device="cpu"),
    "sketch on tensors": lc.KernelLaw(engine="sketch", device="cpu", tolerance=0.5),
}
MANY_ROWS = ("compiled forest", "neighbors by a tree")
OTHERS = {"lcp": lc.LCPRegressor, "rlcp": lc.RLCPRegressor}
#: PyTorch's MKL, whose locks a fork copies as they are, now and then waits for ever in a child.
FORKED = [name for name in LAWS if "tensors" not in name]
#: One for each compiled or foreign library that a fresh process loads.
SPAWNED = ["exact", "sketch", "compiled forest", "sketch on tensors"]
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning")]


def make(name):
    if "tensors" in name:
        optional("torch")
    if name in OTHERS:
        return OTHERS[name](LINE, random_state=0).fit(*smooth_data(400, seed=0))
    model = lc.SLCPRegressor(LINE, law=LAWS[name], reference="train", random_state=0)
    rows = FEW + 200 if name in MANY_ROWS else 500
    return model.set_params(calibration_size=100).fit(*smooth_data(rows, seed=0))


@pytest.fixture(scope="module", params=ci_but({"exact"}, LAWS | OTHERS))
def fitted(request):
    """A fitted model as bytes: what is read from them has nothing made lazily yet."""
    return pickle.dumps(make(request.param))


def ask(model, place):
    bounds = model.predict_interval(ASKED, [0.9, LEVELS[place]]).tobytes()
    of_calibration = isinstance(model, lc.LCPRegressor | lc.RLCPRegressor)
    return bounds if of_calibration else (bounds, model.predict_cdf(ASKED, LEVELS[place]).tobytes())


def ask_alone(state):
    model = pickle.loads(state)
    return [ask(model, place) for place in range(N_THREADS)]


def ask_at_once(model, question=ask):
    gate = threading.Barrier(N_THREADS)

    def wait_and_ask(place):
        gate.wait(300)
        return question(model, place)

    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(wait_and_ask, range(N_THREADS)))


def test_sixteen_threads_get_the_answers_of_one(fitted):
    assert ask_at_once(pickle.loads(fitted)) == ask_alone(fitted)


def test_threads_may_calibrate_and_ask_the_same_model():
    """Each answer is that of one calibration set or of the other, whole."""
    model, sets = make("exact"), [smooth_data(120, seed=seed) for seed in (20, 21)]
    # As many rows each time: a product's last bits depend on how many there are.
    known = [model.conformalize(*rows).predict_interval(ASKED).tobytes() for rows in sets]
    assert known[0] != known[1]

    def question(model, place):
        if place % 4 == 0:
            model.conformalize(*sets[place // 4 % 2])
        return model.predict_interval(ASKED).tobytes()

    assert set(ask_at_once(model, question)) <= set(known)


#: Inherited by a fork as it is, with whatever was made lazily before.
_held = {}


def ask_held(place):
    return ask(_held["model"], place)


def ask_in_process(state, place):
    (found,) = set(ask_at_once(pickle.loads(state), lambda model, _: ask(model, place)))
    return found


def ask_processes(method, question):
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(N_PROCESSES, mp_context=context) as pool:
        return list(pool.map(question, range(N_PROCESSES), timeout=600))


@pytest.mark.ci
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system"
)
@pytest.mark.parametrize("fitted", FORKED, indirect=True)
def test_forked_processes_get_the_answers_of_one(fitted):
    model = _held["model"] = pickle.loads(fitted)
    # The parent has been at work, in threads of its own, before it forks.
    ask_at_once(model)
    assert ask_processes("fork", ask_held) == ask_alone(fitted)[:N_PROCESSES]


@pytest.mark.nightly
@pytest.mark.parametrize("fitted", SPAWNED, indirect=True)
def test_spawned_processes_get_the_answers_of_one(fitted, tmp_path, monkeypatch):
    """Threads that meet code that is not yet compiled wait for it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    found = ask_processes("spawn", partial(ask_in_process, fitted))
    assert found == ask_alone(fitted)[:N_PROCESSES]


def threads_used(model):
    """Whether our loops leave their thread, threads of libraries and of forests, and answers."""
    seen = set()
    run_in_threads(lambda _: seen.add(threading.get_ident()), list(range(8)), None, 8)
    libraries = [info["num_threads"] for info in threadpool_info()]
    forest = lc.ForestLaw(random_state=0).fit(*smooth_data(50, seed=0)).model_
    return seen == {threading.get_ident()}, libraries, forest.n_jobs, ask(model, 0)


@pytest.mark.ci
@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_a_worker_of_joblib_starts_no_threads_of_its_own_and_answers_alike(backend):
    model = make("plain forest")
    workers = Parallel(n_jobs=2, backend=backend)(delayed(threads_used)(model) for _ in range(2))
    for stays, libraries, jobs, found in workers:
        assert stays
        assert (jobs, found) == (1, ask(model, 0))
        # Half of the cores at most, as OpenMP and BLAS have it there.
        assert backend != "loky" or max(libraries) <= max(1, os.cpu_count() // 2)
