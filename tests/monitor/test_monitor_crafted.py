"""States that were crafted: what cannot be a stream is refused, and every stream loads."""

import json
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from monitor_data import linear_rows, split_model, whole_state
from sklearn.linear_model import LinearRegression

from localconformal import (
    CoverageMonitor,
    LocalizedConformalRegressor,
    MondrianConformalRegressor,
)
from localconformal.monitor.state import digest

NAN = float("nan")
X, Y = linear_rows(700, seed=5)


@cache
def model_and_monitor(noise):
    """A model, and a monitor of it that has seen rows."""
    model = split_model()
    X, y = linear_rows(700, seed=5, noise=noise)
    return model, CoverageMonitor(model, random_state=0).update(X, y)


def crafted(folder, noise, place, value):
    """A model, and a file with one entry replaced and the digest of it."""
    model, monitor = model_and_monitor(noise)
    path = monitor.save(folder / "state.json")
    content = json.loads(path.read_text(encoding="utf-8"))["content"]
    holder = content
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = value(holder[place[-1]]) if callable(value) else value
    path.write_text(json.dumps({"content": content, "sha256": digest(content)}), encoding="utf-8")
    return model, path


def check_refused(model, path):
    with pytest.raises(ValueError, match="was altered; start a new monitor"):
        CoverageMonitor.load(path, model)


def twice(entries):
    return [*entries, entries[0]]


def halves(tallies):
    """All in two tallies of one cell, each count once."""
    (column, cell, codes, counts) = tallies[0]
    middle = len(codes) // 2
    return [
        [column, cell, codes[:middle], counts[:middle]],
        [column, cell, codes[middle:], counts[middle:]],
    ]


EDITS = [
    *[(("stream", "seed"), value) for value in ("abc", -1, 1.5, None, True, 2**40)],
    *[(("stream", "rows"), value) for value in (700.0, "many", -5, 7, None, True, 10**300)],
    *[(("stream", "n_covered"), value) for value in (2.5, -1, 10**9, "x", None, 0)],
    *[(("stream", "history"), value) for value in ([0, []], [1, [[1]]], [4, []], [2**60, []], {})],
    *[(("stream", "history", 0), value) for value in (1, 2, 8, 4.0, "4")],
    *[(("stream", "history", 1, 0), value) for value in ("abc", [4, 5, 0.0], [8, 4, 0.0], None)],
    *[(("stream", "history", 1, -1, 0), value) for value in ("700", 10**6, 700.0)],
    *[(("stream", "history", 1, 5, 1), value) for value in (0, 700, "9", 9.5)],
    *[(("stream", "history", 1, 5, 2), value) for value in (NAN, 1e300, -1e300, "0", 0, 50.0)],
    *[(("stream", "martingales"), value) for value in ([], [[], []], [[["x"]], [0.0]], None)],
    (("stream", "martingales", 0, 0), lambda wealth: np.zeros_like(wealth).tolist()),
    (("stream", "martingales", 0, 0), lambda wealth: (2.0 * np.array(wealth)).tolist()),
    (("stream", "martingales", 0, 0, 2), lambda wealth: [sum(wealth)] + [0.0] * (len(wealth) - 1)),
    *[(("stream", "martingales", 0, 0, 2, 0), value) for value in (-0.5, 0.0, NAN, 1e300, "x", 1)],
    *[(("stream", "martingales", 1, 0), value) for value in (NAN, 1e300, -1e300, -50.0, 50.0, "x")],
    *[(("stream", "alarm"), value) for value in ([1], [10**6, 5.0], "ab", 3, [[1], 5.0], {})],
    *[(("stream", "tallies"), value) for value in (None, [], {}, twice, halves)],
    *[(("stream", "tallies", 0, 0), value) for value in (-1, 9, 0.0, "0", False)],
    *[(("stream", "tallies", 0, 1), value) for value in (0, "elsewhere", None, [])],
    (("stream", "tallies", 0, 2), lambda codes: [[code] for code in codes]),
    (("stream", "tallies", 0, 2), lambda codes: codes[::-1]),
    (("stream", "tallies", 0, 2), lambda codes: codes[1:]),
    *[(("stream", "tallies", 0, 2, 0), value) for value in (-(10**9), -(10**30), 1.5, "1", None)],
    (("stream", "tallies", 0, 3), lambda counts: [counts]),
    (("stream", "tallies", 0, 3), lambda counts: [1] * len(counts)),
    *[(("stream", "tallies", 0, 3, 0), value) for value in (0, -1, 2**63, 1.0, True, "1")],
    *[(("confidence_level",), value) for value in (0.5, 0.95, "0.9", None, NAN)],
    *[(("false_alarm",), value) for value in (0.0, 1, NAN, "0.01", None, True)],
    *[(("probability",), value) for value in (0.0, 1, NAN, "0.95", None, True)],
    *[(("stream",), value) for value in (None, [], {}, lambda stream: list(stream.items()))],
    (("more",), 1),
    (("stream", "more"), 1),
]
EDITS_AFTER_AN_ALARM = [
    *[(("stream", "alarm"), value) for value in (None, [700, 5.0])],
    *[(("stream", "alarm", 0), value) for value in (1.5, 0, -1, 701, "1", None, True)],
    *[(("stream", "alarm", 1), value) for value in ("x", NAN, 4.6, -1e300, 1e300, 5, None)],
    (("false_alarm",), 1e-300),
]


def place_and_value(edit):
    place, value = edit
    name = getattr(value, "__name__", str(value))
    return f"{'.'.join(map(str, place))}: {name}"


@pytest.mark.parametrize(
    ("noise", "edit"),
    [(1.0, edit) for edit in EDITS] + [(3.0, edit) for edit in EDITS_AFTER_AN_ALARM],
    ids=lambda part: place_and_value(part) if isinstance(part, tuple) else "",
)
def test_a_state_that_cannot_be_is_refused_whatever_its_digest(noise, edit, tmp_path):
    place, value = edit
    check_refused(*crafted(tmp_path, noise, place, value))


def test_content_that_is_no_mapping_is_refused(tmp_path):
    model, monitor = model_and_monitor(1.0)
    path = monitor.save(tmp_path / "state.json")
    pairs = [list(pair) for pair in json.loads(path.read_text())["content"].items()]
    path.write_text(json.dumps({"content": pairs, "sha256": digest(pairs)}))
    check_refused(model, path)


# ---- and what loads --------------------------------------------------------------------------


def loads_and_goes_on(monitor, path, X, y, **labels):
    again = CoverageMonitor.load(monitor.save(path), monitor.model)
    assert whole_state(again, path) == whole_state(monitor, path)
    for each in (monitor, again):
        each.update(X, y, **labels)
    assert whole_state(again, path) == whole_state(monitor, path)


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_every_stream_loads_at_each_of_its_rows(noise, tmp_path):
    monitor = CoverageMonitor(split_model(), random_state=0)
    X, y = linear_rows(1_100, seed=6, noise=noise)
    cuts = [0, 1, 2, 5, 128, 255, 256, 257, 258, 512, 513, 514, 515, 1_027, 1_028, 1_029, 1_100]
    for start, stop in pairwise(cuts):
        loads_and_goes_on(monitor, tmp_path / "state.json", X[start:stop], y[start:stop])
    assert (monitor.alarm_ is None) == (noise == 1.0)


def test_streams_of_two_sides_and_of_ever_new_cells_load(tmp_path):
    sided = LocalizedConformalRegressor(
        LinearRegression(), adjustment="plain", sides="union", random_state=0
    ).fit(X, Y)
    monitor = CoverageMonitor(sided, random_state=0).update(*linear_rows(300, 8))
    loads_and_goes_on(monitor, tmp_path / "state.json", X[:50], Y[:50])
    labels = np.where(X[:, 1] < 0.5, "a", "b")
    model = MondrianConformalRegressor(LinearRegression(), random_state=0).fit(X, Y, groups=labels)
    monitor = CoverageMonitor(model, random_state=0)
    with pytest.warns(UserWarning, match="infinite"):
        monitor.update(X[:50], Y[:50], groups=[f"new {i}" for i in range(50)])
    loads_and_goes_on(monitor, tmp_path / "state.json", X[:50], Y[:50], groups=labels[:50])


def test_a_part_of_the_wealth_may_be_lost(tmp_path):
    """After a million rows the part that moves most is no number above zero any more."""
    monitor = CoverageMonitor(split_model(), random_state=0).update(X, Y)
    wealth = monitor._stream.martingales.wealth
    wealth[:, 0] = 0.0
    wealth /= wealth.sum()
    loads_and_goes_on(monitor, tmp_path / "state.json", *linear_rows(300, 9, noise=4.0))
    assert monitor.alarm_ is not None
