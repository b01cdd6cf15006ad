"""A monitor as JSON, and back: numbers and text, never code.

The file has two digests. One is of its own content: a file that was cut or edited is refused. The
other is of the model, by its training rows, calibration and level: p-values of one model mean
nothing beside those of another.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from localconformal.io.files import write_whole
from localconformal.monitor.history import History
from localconformal.monitor.martingale import Martingales
from localconformal.monitor.sound import CONTENT, is_sound
from localconformal.monitor.stream import Part, Stream
from localconformal.monitor.tally import Tally

#: Raised when the content or the bets change: wealth of other bets cannot be continued.
FORMAT = 2
NOT_WHOLE = (
    "is not a whole state of a CoverageMonitor, or was altered; start a new monitor, or restore "
    "the file."
)


def model_digest(model: Any, calibration: dict[Part, Tally], level: float) -> str:
    """SHA-256 of the training rows, of the calibration scores on the grid, and of the level.

    Training rows are there by their hashes, for another model may have the same scores; those of a
    model that does not remember any count as none.
    """
    hashes = np.asarray(vars(model).get("_training_hashes", ()), dtype="<u8")
    return digest([level, sha256(hashes.tobytes()).hexdigest(), tallies_as_lists(calibration)])


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
    """What a stream holds beyond the model's calibration; a copy, which rows do not change."""
    return {
        "seed": stream.seed,
        "rows": stream.rows,
        "n_covered": stream.n_covered,
        "alarm": stream.alarm,
        "martingales": [stream.martingales.wealth.tolist(), stream.martingales.logs.tolist()],
        "history": [stream.history.stride, list(stream.history.points)],
        "tallies": tallies_as_lists(stream.tallies),
    }


def stream_from(
    path: str | Path, content: dict[str, Any], new: Stream, log_limit: float, one_cell: bool
) -> Stream:
    """The stream with this content, of the model that the new one belongs to, or a ValueError."""
    if not is_sound(content["stream"], new, log_limit, one_cell):
        raise ValueError(f"{path} {NOT_WHOLE}")
    return read_stream(content["stream"], new)


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
        content = whole["content"]
        is_whole = isinstance(content, dict) and whole["sha256"] == digest(content)
    except (ValueError, KeyError, TypeError, RecursionError):
        is_whole = False
    if is_whole and content.get("format") != FORMAT:
        raise ValueError(
            f"{path} has format {content.get('format')!r} and this version reads {FORMAT}; start a "
            "new monitor."
        )
    if not is_whole or not CONTENT(content):
        raise ValueError(f"{path} {NOT_WHOLE}")
    return dict(content)
