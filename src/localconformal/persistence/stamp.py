"""Who wrote a model file: an entry with the number of its format, and the versions.

The number goes up when files change so that older versions of this library cannot read them; it is
looked at before all else. Versions are for the sentence about a file that does not load.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, field

import sklearn

from localconformal import __version__

STAMP = "localconformal.json"
#: 0 had no stamp, and is otherwise the same.
FORMAT = 1


@dataclass(frozen=True)
class Stamp:
    """The number of a format, and package -> version."""

    format: int = 0
    versions: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Packages with their versions, in words."""
        return " with ".join(f"{name} {version}" for name, version in self.versions.items())


def own_stamp() -> Stamp:
    """Of files written here and now.

    Examples
    --------
    >>> list(own_stamp().versions), own_stamp().format == FORMAT
    (['localconformal', 'scikit-learn'], True)
    """
    return Stamp(FORMAT, {"localconformal": __version__, "scikit-learn": sklearn.__version__})


def stamped(data: bytes) -> bytes:
    """A zip file with the stamp added."""
    file, own = io.BytesIO(data), own_stamp()
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(STAMP, json.dumps({"format": own.format, "versions": own.versions}))
    return file.getvalue()


def read_stamp(data: bytes) -> Stamp:
    """The stamp of a zip file, format 0 where there is none; a ValueError if it cannot be read."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if STAMP not in archive.namelist():
            return Stamp()
        content = json.loads(archive.read(STAMP))
    if not isinstance(content, dict) or type(content.get("format")) is not int:
        raise ValueError("its stamp has no number of a format")
    versions = content.get("versions")
    known = versions.items() if isinstance(versions, dict) else ()
    return Stamp(content["format"], {str(name): str(version) for name, version in known})
