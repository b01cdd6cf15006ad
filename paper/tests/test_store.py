"""What is in a store is done, whatever killed the run that wrote it."""

import json

import pytest

from benchmarks.harness import Store, decode, encode, read_store

ABOUT = {"experiment": "tiny", "version": 1, "preset": {"datasets": ("a", "b")}}


@pytest.fixture
def path(tmp_path):
    """A store of three records."""
    store = Store(tmp_path / "new" / "tiny.jsonl", ABOUT)
    for k in range(3):
        store.append({"case": {"k": k}, "rows": []})
    return store.path


def cases(store):
    return [record["case"]["k"] for record in store.records]


def test_records_come_back_and_the_header_says_where_they_were_made(path):
    assert cases(Store(path, ABOUT)) == [0, 1, 2]
    made = decode(path.read_bytes().split(b"\n")[0])["made"]
    assert {"commit", "cpu", "packages", "python"} <= set(made)


def test_every_truncation_leaves_a_whole_prefix_and_a_store_that_goes_on(path):
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        store = Store(path, ABOUT)
        assert cases(store) == list(range(len(store.records)))
        store.append({"case": {"k": 9}, "rows": []})
        assert cases(Store(path, ABOUT))[-1] == 9


def test_a_spoilt_line_is_run_again_and_the_others_stay(path):
    path.write_bytes(path.read_bytes().replace(b'"k":1', b'"k":5'))
    assert cases(Store(path, ABOUT)) == [0, 2]


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"experiment": "other"}, {"preset": {}}, {"format_version": 0}],
)
def test_a_store_of_anything_else_is_refused_and_kept(path, change):
    before = path.read_bytes()
    for opened in (Store, read_store):
        with pytest.raises(ValueError, match="another version or preset"):
            opened(path, {**ABOUT, **change})
    assert path.read_bytes() == before


def test_lines_are_json_behind_a_checksum():
    line = encode({"b": 1.5, "a": None})
    assert json.loads(line.split(b" ", 1)[1]) == {"a": None, "b": 1.5}
    assert decode(line[:-1]) == {"a": None, "b": 1.5}
    assert decode(b"") is None
    with pytest.raises(ValueError, match="JSON"):
        encode({"a": float("nan")})
