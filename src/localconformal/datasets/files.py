"""Where the file of a data set is: a folder of the user's, the cache, or its public source.

Folders are looked through in this order: the ``data_home`` of the call; ``LOCALCONFORMAL_DATA``;
the cache of this library. Each may hold the Parquet file (``bio.parquet``) or the file as its
public source has it (``CASP.csv``). If none does, the file is downloaded into the cache and must
have the SHA-256 checksum that is known of it: the Parquet file from ``LOCALCONFORMAL_DATA_URL``
where that is set (it is a conversion that no public site offers), else the public source, for
the sets whose source is one plain text file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: A folder with the files.
FOLDER_VARIABLE = "LOCALCONFORMAL_DATA"
#: Where Parquet files are served: <URL>/<name>.parquet
URL_VARIABLE = "LOCALCONFORMAL_DATA_URL"


@dataclass(frozen=True)
class RawSource:
    """The public file behind a data set: where it is, its checksum, and how it is read."""

    url: str
    sha256: str
    read: Callable[[Path], Any]

    @property
    def filename(self) -> str:
        """The last part of the address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class DataFile:
    """The Parquet file of this name, its checksum, and its public source if that is one file."""

    name: str
    sha256: str
    raw: RawSource | None = None

    @property
    def filename(self) -> str:
        """Name of the Parquet file."""
        return f"{self.name}.parquet"

    @property
    def accepted(self) -> list[str]:
        """Names under which the file may lie in a folder."""
        return [self.filename, *([self.raw.filename] if self.raw else [])]

    def read(self, path: Path) -> Any:
        """The file as a pandas frame, whichever of the two kinds it is."""
        import pandas as pd

        if self.raw is not None and path.name == self.raw.filename:
            return self.raw.read(path)
        return pd.read_parquet(path)


def cache_folder() -> Path:
    """Where downloads are kept."""
    import pooch

    return Path(pooch.os_cache("localconformal"))


def folders(data_home: str | Path | None) -> list[Path]:
    """Where to look, in order."""
    named = os.environ.get(FOLDER_VARIABLE)
    given = [Path(folder) for folder in (data_home, named) if folder]
    return [*given, cache_folder()]


def find_file(file: DataFile, data_home: str | Path | None = None) -> Path | None:
    """The file in one of the folders; None where it is in none of them."""
    for folder in folders(data_home):
        for name in file.accepted:
            if (folder / name).is_file():
                return folder / name
    return None


def fetch_file(file: DataFile, data_home: str | Path | None = None) -> Path:
    """The file, downloaded if need be; FileNotFoundError says where to put it."""
    found = find_file(file, data_home)
    if found is not None:
        return found
    places = ", ".join(str(folder) for folder in folders(data_home))
    why = "no public site offers it as one file"
    for url, checksum in _sources(file):
        path, why = _download(url, checksum)
        if path is not None:
            return path
    raise FileNotFoundError(
        f"{' or '.join(file.accepted)} is not in {places}, and {why}; put the file into one of "
        f"these folders, or set {FOLDER_VARIABLE} to the folder that has it."
    )


def _sources(file: DataFile) -> list[tuple[str, str]]:
    """Addresses to try, with the checksum that must come."""
    served = os.environ.get(URL_VARIABLE)
    mirror = [(f"{served.rstrip('/')}/{file.filename}", file.sha256)] if served else []
    return [*mirror, *([(file.raw.url, file.raw.sha256)] if file.raw else [])]


def _download(url: str, checksum: str) -> tuple[Path | None, str]:
    """The file in the cache, or why it is not there; a file with another checksum is not kept."""
    import pooch

    filename = url.rsplit("/", 1)[-1]
    try:
        return Path(pooch.retrieve(url, f"sha256:{checksum}", filename, cache_folder())), ""
    except OSError as error:
        return None, f"{url} could not be read ({type(error).__name__})"
    except ValueError:
        return None, f"what {url} has now is another file (its SHA-256 is not {checksum[:12]}...)"
