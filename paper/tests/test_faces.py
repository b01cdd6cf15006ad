"""Images from a Parquet file of JPEG bytes; the ones here are made, except in the slow test."""

import io
import os

import numpy as np
import pytest

from paper.data import FOLDER_VARIABLE, URL_VARIABLE
from paper.faces import UNKNOWN, load_faces

pd = pytest.importorskip("pandas")
Image = pytest.importorskip("PIL.Image")


def jpeg(shade):
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), (shade, shade, shade)).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_images_ages_and_groups_are_read(folder):
    frame = pd.DataFrame(
        {
            "age": [1, 40, 116],
            "gender": [0, 1, 1],
            "ethnicity": [0, 4, -1],
            "jpeg": [jpeg(shade) for shade in (10, 128, 250)],
        }
    )
    frame.to_parquet(folder / "utkface64.parquet")
    faces = load_faces(folder)
    assert faces.images.shape == (3, 64, 64, 3)
    assert faces.images.dtype == np.uint8
    np.testing.assert_allclose(faces.images[:, 32, 32, 0], [10, 128, 250], atol=2)
    np.testing.assert_array_equal(faces.age, [1.0, 40.0, 116.0])
    assert faces.groups["gender"].tolist() == ["male", "female", "female"]
    assert faces.groups["ethnicity"].tolist() == ["White", "other", UNKNOWN]


def test_one_sentence_says_where_the_file_is_looked_for(folder):
    with pytest.raises(FileNotFoundError, match=r"utkface64\.parquet is not in .*put the file"):
        load_faces(folder)


@pytest.mark.parametrize("content", [{"age": [1]}, {"age": [1], "jpeg": [b"no picture"]}])
def test_a_file_without_images_is_named(folder, content):
    pd.DataFrame(content).to_parquet(folder / "utkface64.parquet")
    with pytest.raises(ValueError, match=r"utkface64\.parquet could not be read as faces"):
        load_faces(folder)


@pytest.mark.ci
@pytest.mark.skipif(not os.environ.get(FOLDER_VARIABLE), reason=f"{FOLDER_VARIABLE} is not set")
def test_the_faces_are_all_there():
    faces = load_faces()
    assert faces.images.shape == (23_707, 64, 64, 3)
    assert faces.age.min() == 1.0
    assert faces.age.max() == 116.0
    assert np.sum(faces.groups["ethnicity"] == UNKNOWN) == 3
