import json

import pytest

from localconformal.experiments.store import Store, decode, encode

ABOUT = {"experiment": "tiny", "version": 1, "preset": {"datasets": ("a", "b")}}


def open_store(path, about=ABOUT):
    said = []
    return Store(path, about, said.append), said


@pytest.fixture
def path(tmp_path):
    """A store of three records."""
    store, _ = open_store(tmp_path / "tiny.jsonl")
    for k in range(3):
        store.append({"case": {"k": k}, "rows": []})
    return store.path


def cases(store):
    return [record["case"]["k"] for record in store.records]


def test_records_come_back(path):
    store, said = open_store(path)
    assert cases(store) == [0, 1, 2]
    assert said == []


def test_a_store_makes_no_file_before_its_first_record(tmp_path):
    store, _ = open_store(tmp_path / "new" / "tiny.jsonl")
    assert store.records == []
    assert not store.path.exists()


@pytest.mark.parametrize("cut", range(1, 34, 3))
def test_a_line_without_its_end_is_cut_off_and_the_others_stay(path, cut):
    path.write_bytes(path.read_bytes()[:-cut])
    store, said = open_store(path)
    assert cases(store) == [0, 1]
    assert "cut off" in said[0]
    store.append({"case": {"k": 7}, "rows": []})
    again, said = open_store(path)
    assert cases(again) == [0, 1, 7]
    assert said == []


def test_every_truncation_leaves_a_whole_prefix(path, tmp_path):
    content = path.read_bytes()
    for length in range(len(content)):
        place = tmp_path / f"cut{length}" / "tiny.jsonl"
        place.parent.mkdir()
        place.write_bytes(content[:length])
        store, _ = open_store(place)
        assert cases(store) == list(range(len(store.records)))
        store.append({"case": {"k": 9}, "rows": []})
        assert cases(open_store(place)[0])[-1] == 9


def test_a_spoilt_line_sets_the_file_aside_and_loses_nothing_that_is_whole(path):
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b'"k":1', b'"k":5')
    path.write_bytes(b"\n".join(lines))
    store, said = open_store(path)
    assert cases(store) == [0, 2]
    assert "1 spoilt" in said[0]
    assert path.with_name("tiny.jsonl.aside-1").read_bytes() == b"\n".join(lines)
    assert cases(open_store(path)[0]) == [0, 2]


@pytest.mark.parametrize(
    "about",
    [
        {**ABOUT, "version": 2},
        {**ABOUT, "experiment": "other"},
        {**ABOUT, "preset": {"datasets": ("a",)}},
    ],
)
def test_a_store_of_another_version_is_set_aside_unread(path, about):
    before = path.read_bytes()
    store, said = open_store(path, about)
    assert store.records == []
    assert "another version" in said[0]
    assert path.with_name("tiny.jsonl.aside-1").read_bytes() == before
    store.append({"case": {"k": 4}, "rows": []})
    assert cases(open_store(path, about)[0]) == [4]


def test_what_is_no_store_is_set_aside_under_a_name_that_is_free(path):
    for number in (1, 2):
        path.write_text("something else\nentirely\n")
        store, said = open_store(path)
        assert store.records == []
        assert f"aside-{number}" in said[0]


def test_lines_are_json_behind_a_checksum():
    line = encode({"b": 1.5, "a": None})
    assert json.loads(line.split(b" ", 1)[1]) == {"a": None, "b": 1.5}
    assert decode(line[:-1]) == {"a": None, "b": 1.5}
    assert decode(b"") is None


def test_numbers_that_json_does_not_have_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        encode({"a": float("nan")})


@pytest.mark.parametrize("content", [b"notes of somebody", b"", b"\n"])
def test_a_file_without_a_whole_first_line_is_set_aside_and_kept(tmp_path, content):
    path, said = tmp_path / "x.jsonl", []
    path.write_bytes(content)
    store = Store(path, {"experiment": "x"}, said.append)
    assert store.records == []
    assert "no store" in said[0]
    assert (tmp_path / "x.jsonl.aside-1").read_bytes() == content
    store.append({"case": {}})
    assert Store(path, {"experiment": "x"}, said.append).records == [{"case": {}}]
    assert len(said) == 1
