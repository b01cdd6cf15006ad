"""UTKFace: faces to tell the age from.

For non-commercial research only, and the copyright of each image stays with its owner: images are
read into memory, and nothing here shows them or writes them anywhere.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.datasets.files import DataFile, fetch_file
from localconformal.quantiles import Array

FACES = DataFile(
    "utkface64",
    "8cb8ae74726647c29df1ce91dc6efc0dbb2287e58969d0c9736829255b8db767",
)
#: Package -> the extra that brings it.
PACKAGES = {"pandas": "data", "pooch": "data", "pyarrow": "data", "PIL": "plots"}
GENDERS = {0: "male", 1: "female"}
ETHNICITIES = {0: "White", 1: "Black", 2: "Asian", 3: "Indian", 4: "other"}
#: Three file names lack the ethnicity.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Faces:
    """Aligned faces and what their file names say.

    Attributes
    ----------
    images : bytes of shape (n, 64, 64, 3)
    age : array of shape (n,)
        Years, 1 to 116; estimated by an algorithm and checked by a human, so noisy itself.
    groups : dict of arrays of shape (n,)
        "gender" and "ethnicity", as texts.
    """

    images: NDArray[np.uint8]
    age: Array
    groups: dict[str, NDArray[np.str_]]


def load_faces(data_home: str | Path | None = None) -> Faces:
    """The 23,707 faces of UTKFace at 64 x 64 pixels.

    Parameters
    ----------
    data_home : path, default=None
        A folder with ``utkface64.parquet``, to look in first; then the folders of `load_dataset`.

    Returns
    -------
    Faces

    Examples
    --------
    >>> faces = load_faces()  # doctest: +SKIP
    """
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        extras = ",".join(sorted({PACKAGES[name] for name in missing}))
        raise ImportError(
            f"load_faces needs {' and '.join(missing)}, which this environment lacks: run pip "
            f"install 'localconformal[{extras}]'."
        )
    path = fetch_file(FACES, data_home)
    try:
        frame = FACES.read(path)
        images = np.stack([decode(jpeg) for jpeg in frame["jpeg"]])
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{path} could not be read as faces ({type(error).__name__}); replace the file."
        ) from error
    groups = {
        "gender": labels(frame["gender"], GENDERS),
        "ethnicity": labels(frame["ethnicity"], ETHNICITIES),
    }
    return Faces(images, frame["age"].to_numpy(dtype=np.float64), groups)


def decode(jpeg: bytes) -> NDArray[np.uint8]:
    """Bytes (rows, columns, 3)."""
    from PIL import Image

    with Image.open(io.BytesIO(jpeg)) as image:
        return np.asarray(image.convert("RGB"))


def labels(codes: Any, names: dict[int, str]) -> NDArray[np.str_]:
    """Codes as words."""
    return np.array([names.get(int(code), UNKNOWN) for code in codes])
