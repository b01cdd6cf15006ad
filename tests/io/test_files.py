"""Files are whole or not there, and several together or none of them."""

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from localconformal.io.files import UnwritableError, write_together, write_whole
from localconformal.io.tables import write_table


class TestWriteWhole:
    def test_replaces_the_previous_file(self, tmp_path):
        path = tmp_path / "made" / "file.txt"
        for text in ("old", "new"):
            write_whole(path, lambda part, text=text: part.write_text(text))
        assert path.read_text() == "new"
        assert list(path.parent.iterdir()) == [path]

    @pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
    def test_an_interruption_leaves_the_previous_file(self, tmp_path, interruption):
        path = tmp_path / "file.txt"
        path.write_text("old")

        def write(part):
            part.write_text("half")
            raise interruption

        with pytest.raises(interruption):
            write_whole(path, write)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_new_file_is_as_readable_as_any(self, tmp_path):
        (tmp_path / "plain").touch()
        made = write_whole(tmp_path / "made", lambda part: part.write_text(""))
        assert made.stat().st_mode == (tmp_path / "plain").stat().st_mode


class TestWriteTogether:
    def test_an_interruption_leaves_nothing_not_even_the_folder(self, tmp_path):
        def interrupted(part):
            part.write_text("half")
            raise KeyboardInterrupt

        writers = {
            tmp_path / "new" / "folder" / "a.txt": lambda part: part.write_text("whole"),
            tmp_path / "new" / "folder" / "b.txt": interrupted,
        }
        with pytest.raises(KeyboardInterrupt):
            write_together(writers)
        assert not list(tmp_path.iterdir())

    def test_an_interruption_between_renames_comes_too_late(self, tmp_path, monkeypatch):
        rename = Path.replace

        def interrupted(part, path):
            os.kill(os.getpid(), signal.SIGINT)
            return rename(part, path)

        monkeypatch.setattr(Path, "replace", interrupted)
        paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
        before = signal.getsignal(signal.SIGINT)
        assert write_together({path: lambda part: part.write_text("whole") for path in paths})
        assert sorted(tmp_path.iterdir()) == paths
        assert signal.getsignal(signal.SIGINT) is before

    def test_works_in_another_thread(self, tmp_path):
        writers = {tmp_path / "a.txt": lambda part: part.write_text("whole")}
        thread = threading.Thread(target=write_together, args=(writers,))
        thread.start()
        thread.join()
        assert (tmp_path / "a.txt").read_text() == "whole"

    def test_a_folder_in_the_way_is_one_sentence(self, tmp_path):
        (tmp_path / "a.txt").mkdir()
        with pytest.raises(OSError, match="it is a folder"):
            write_whole(tmp_path / "a.txt", lambda part: part.write_text(""))


class Stopped(BaseException):
    """Neither an error of the system nor one that is expected."""


class TestRenamesThatFail:
    """Of several files that are to be replaced, all are, or all are as they were."""

    @staticmethod
    def writers(folder):
        return {folder / name: lambda part: part.write_text("new") for name in "abc"}

    @staticmethod
    def contents(folder):
        return {
            path.name: path.read_text() if path.is_file() else "folder" for path in folder.iterdir()
        }

    @pytest.mark.parametrize("there", ["", "a", "ac", "abc"])
    @pytest.mark.parametrize("position", range(6))
    @pytest.mark.parametrize(("after", "error"), [(False, OSError), (True, Stopped)])
    def test_a_rename_that_fails_leaves_what_was_there(
        self, tmp_path, monkeypatch, there, position, after, error
    ):
        for name in there:
            (tmp_path / name).write_text("old")
        before, rename, renamed = self.contents(tmp_path), Path.replace, []

        def failing(path, other):
            renamed.append(path)
            fails = len(renamed) == position + 1
            if fails and not after:
                raise error
            made = rename(path, other)
            if fails:
                raise error
            return made

        monkeypatch.setattr(Path, "replace", failing)
        if position < 3 + len(there):
            with pytest.raises(error):
                write_together(self.writers(tmp_path))
            assert self.contents(tmp_path) == before
        else:
            write_together(self.writers(tmp_path))
            assert self.contents(tmp_path) == dict.fromkeys("abc", "new")

    def test_a_folder_that_appears_meanwhile_undoes_the_others(self, tmp_path):
        (tmp_path / "a").write_text("old")
        writers = self.writers(tmp_path)
        writers[tmp_path / "b"] = lambda part: (tmp_path / "b").mkdir()
        with pytest.raises(OSError):
            write_together(writers)
        assert self.contents(tmp_path) == {"a": "old", "b": "folder"}

    def test_a_link_is_a_link_again(self, tmp_path):
        (tmp_path / "a").symlink_to("nowhere")
        writers = self.writers(tmp_path)
        writers[tmp_path / "c"] = lambda part: (tmp_path / "c").mkdir()
        with pytest.raises(OSError):
            write_together(writers)
        assert (tmp_path / "a").readlink() == Path("nowhere")
        assert len(list(tmp_path.iterdir())) == 2


class TestNoRoom:
    """A full disk is told with the name of the file that found no room."""

    @pytest.mark.parametrize("suffix", [".csv", ".parquet", ".txt"])
    def test_a_full_disk_names_the_file(self, tmp_path, suffix):
        (tmp_path / f"full{suffix}").symlink_to("/dev/full")
        frame = pd.DataFrame({"a": np.arange(10_000.0)})

        def write(_):
            full = tmp_path / f"full{suffix}"
            return full.write_text("x") if suffix == ".txt" else write_table([frame], full)

        path = tmp_path / "made" / f"wanted{suffix}"
        with pytest.raises(UnwritableError, match="No space left on device; make room") as caught:
            write_whole(path, write)
        assert str(caught.value).startswith(f"Cannot write {path}: ")
        assert not path.parent.exists()

    def test_other_errors_of_a_writer_stay(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            write_whole(tmp_path / "a", lambda part: (tmp_path / "none").read_text())
