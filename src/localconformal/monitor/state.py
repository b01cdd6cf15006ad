"""A monitor as JSON, and back: numbers and text, never code.

The file has two digests. One is of its own content: a file that was cut or edited is refused. The
other is of the model's calibration: p-values of one model mean nothing beside those of another.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from localconformal.files import write_whole
from localconformal.monitor.history import History
from localconformal.monitor.martingale import Martingales
from localconformal.monitor.stream import Part, Stream
from localconformal.monitor.tally import Tally

#: Raised when the content or the bets change: wealth of other bets cannot be continued.
FORMAT = 1
PARTS = {"format", "false_alarm", "probability", "confidence_level", "calibration", "stream"}
NOT_WHOLE = (
    "is not a whole state of a CoverageMonitor, or was altered; start a new monitor, or restore "
    "the file."
)


def calibration_digest(calibration: dict[Part, Tally], level: float) -> str:
    """SHA-256 of the calibration scores on the grid, and of the level."""
    return digest([level, tallies_as_lists(calibration)])


def digest(content: Any) -> str:
    """SHA-256 of plain content, in hexadecimal."""
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def tallies_as_lists(tallies: dict[Part, Tally]) -> list[list[Any]]:
    """Column, cell, codes and counts of each, in one order."""
    return [
        [column, cell, tally.codes.tolist(), tally.counts.tolist()]
        for (column, cell), tally in sorted(tallies.items())
    ]


def stream_content(stream: Stream) -> dict[str, Any]:
    """What a stream holds beyond the model's calibration."""
    return {
        "seed": stream.seed,
        "rows": stream.rows,
        "n_covered": stream.n_covered,
        "alarm": stream.alarm,
        "martingales": [stream.martingales.wealth.tolist(), stream.martingales.logs.tolist()],
        "history": [stream.history.stride, stream.history.points],
        "tallies": tallies_as_lists(stream.tallies),
    }


def stream_from(path: str | Path, content: dict[str, Any], new: Stream) -> Stream:
    """The stream with this content, of the model that the new one belongs to, or a ValueError."""
    try:
        stream = read_stream(content["stream"], new)
        is_whole = is_sound(stream, new)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        is_whole = False
    if not is_whole:
        raise ValueError(f"{path} {NOT_WHOLE}")
    return stream


def is_sound(stream: Stream, new: Stream) -> bool:
    """Whether the numbers of a stream can be those of one: the digest needs no secret."""
    counted = np.zeros(len(new.alphas), dtype=np.int64)
    for (column, _), tally in stream.tallies.items():
        if tally.codes.shape != tally.counts.shape or np.any(tally.counts <= 0):
            return False
        if np.any(np.diff(tally.codes) <= 0):
            return False
        counted[column] += tally.n
    ours, fresh = stream.martingales, new.martingales
    checks = (
        np.all(counted == stream.rows),
        0 <= stream.n_covered <= stream.rows,
        ours.wealth.shape == fresh.wealth.shape and np.all(np.isfinite(ours.wealth)),
        ours.logs.shape == fresh.logs.shape and np.all(np.isfinite(ours.logs)),
        stream.history.stride >= 1 and all(len(point) == 3 for point in stream.history.points),
        stream.alarm is None or (len(stream.alarm) == 2 and 1 <= stream.alarm[0] <= stream.rows),
    )
    return all(map(bool, checks))


def read_stream(content: dict[str, Any], new: Stream) -> Stream:
    """The stream as its content has it."""
    stride, points = content["history"]
    return replace(
        new,
        seed=content["seed"],
        martingales=Martingales(*map(np.array, content["martingales"])),
        rows=content["rows"],
        n_covered=content["n_covered"],
        alarm=None if content["alarm"] is None else tuple(content["alarm"]),
        history=History(stride, [tuple(point) for point in points]),
        tallies={
            (column, cell): Tally(np.array(codes, dtype=np.int64), np.array(counts, dtype=np.int64))
            for column, cell, codes, counts in content["tallies"]
        },
    )


def write_state(path: str | Path, content: dict[str, Any]) -> Path:
    """Write content with its digest; the file is whole or not there."""
    content = {"format": FORMAT, **content}
    text = json.dumps({"content": content, "sha256": digest(content)})
    return write_whole(Path(path), lambda part: part.write_text(text, encoding="utf-8"))


def read_state(path: str | Path) -> dict[str, Any]:
    """The content of a file from `write_state`, or a ValueError in one sentence."""
    path = Path(path)
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {state}; give the path of a file from CoverageMonitor.save.")
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        content = dict(whole["content"])
        is_whole = whole["sha256"] == digest(whole["content"])
    except (ValueError, KeyError, TypeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise ValueError(f"{path} {NOT_WHOLE}")
    if content.keys() >= PARTS and content["format"] == FORMAT:
        return content
    raise ValueError(
        f"{path} has format {content.get('format')!r} and this version reads {FORMAT}; start a new "
        "monitor."
    )
