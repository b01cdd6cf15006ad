"""Files are whole or not there, and several together or none of them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from localconformal.io.files import UnwritableError, write_together, write_whole
from localconformal.io.tables import write_table


def contents(folder):
    return {path.name: path.read_text() if path.is_file() else "?" for path in folder.rglob("*")}


def writers(folder, **others):
    return dict.fromkeys((folder / name for name in "abc"), lambda part: part.write_text("new")) | {
        folder / name: write for name, write in others.items()
    }


def test_a_file_replaces_the_previous_one_and_is_as_readable_as_any(tmp_path):
    (tmp_path / "plain").touch()
    for text in ("old", "new"):
        path = write_whole(
            tmp_path / "made" / "file", lambda part, text=text: part.write_text(text)
        )
    assert contents(tmp_path) == {"plain": "", "made": "?", "file": "new"}
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_leaves_the_previous_file_and_no_new_folder(tmp_path, interruption):
    (tmp_path / "b").write_text("old")

    def interrupted(part):
        part.write_text("half")
        raise interruption

    with pytest.raises(interruption):
        write_whole(tmp_path / "b", interrupted)
    with pytest.raises(interruption):
        write_together(writers(tmp_path / "new" / "folder", b=interrupted))
    assert contents(tmp_path) == {"b": "old"}


@pytest.mark.parametrize("there", ["", "a", "acd", "abc"])
@pytest.mark.parametrize("position", range(7))
@pytest.mark.parametrize(("after", "error"), [(False, OSError), (True, KeyboardInterrupt)])
def test_a_rename_that_fails_leaves_what_was_there(
    tmp_path, monkeypatch, there, position, after, error
):
    for name in there:
        (tmp_path / name).write_text("old")
    before, rename, renamed = contents(tmp_path), Path.replace, []

    def failing(path, other):
        renamed.append(path)
        fails = len(renamed) == position + 1
        made = None if fails and not after else rename(path, other)
        if fails:
            raise error
        return made

    monkeypatch.setattr(Path, "replace", failing)
    removed = [tmp_path / "d"]
    if position < 3 + len(there):
        with pytest.raises(error):
            write_together(writers(tmp_path), remove=removed)
        assert contents(tmp_path) == before
    else:
        write_together(writers(tmp_path), remove=removed)
        assert contents(tmp_path) == dict.fromkeys("abc", "new")


def test_a_folder_that_appears_meanwhile_undoes_the_others_and_links_are_links_again(tmp_path):
    (tmp_path / "a").symlink_to("nowhere")
    with pytest.raises(OSError):
        write_together(writers(tmp_path, b=lambda part: (tmp_path / "b").mkdir()))
    assert ((tmp_path / "a").readlink(), len(list(tmp_path.iterdir()))) == (Path("nowhere"), 2)
    with pytest.raises(OSError, match="it is a folder"):
        write_whole(tmp_path / "b", lambda part: part.write_text(""))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".txt"])
def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, suffix):
    full, path = tmp_path / f"full{suffix}", tmp_path / "made" / f"wanted{suffix}"
    full.symlink_to("/dev/full")
    frame = pd.DataFrame({"a": np.arange(10_000.0)})

    def write(_):
        return full.write_text("x") if suffix == ".txt" else write_table([frame], full)

    with pytest.raises(UnwritableError, match="No space left on device; free some space") as caught:
        write_whole(path, write)
    assert str(caught.value).startswith(f"Cannot write {path}: ")
    with pytest.raises(FileNotFoundError):
        write_whole(path, lambda part: (tmp_path / "none").read_text())
    assert not path.parent.exists()
