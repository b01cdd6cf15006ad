"""The digest inside a model file: does it hold what was written?

A zip file has a check sum for each of its entries, but whoever opens it, changes an entry and packs
it again makes the sums right. So a model file has one entry more, the SHA-256 digest of the names
and contents of all others. It finds every change that was not meant to deceive: flipped bits, lost
or exchanged entries, an edited schema.

It is no signature. It needs no secret, so whoever means to can alter a model and write a digest
that fits. Such a file is held back by the list of types (`allowed`) and the checks of `trees` and
`fields`: it brings no code, but its intervals can be wrong, and numbers that lead compiled loops
astray can end the program. Take model files from people you trust.
"""

from __future__ import annotations

import io
import zipfile
from hashlib import sha256

DIGEST = "localconformal.sha256"


def sealed(data: bytes) -> bytes:
    """A zip file with the digest of its entries added.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> with zipfile.ZipFile(file, "w") as archive:
    ...     archive.writestr("schema.json", "{}")
    >>> has_digest(file.getvalue()), has_digest(sealed(file.getvalue()))
    (False, True)
    """
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(DIGEST, content_digest(archive))
    return file.getvalue()


def has_digest(data: bytes) -> bool:
    """Whether the zip file has a digest, and all is as it says; a ValueError if it is not.

    Every entry is read, so that the check sums of the zip file are compared too.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        expected = content_digest(archive)
        if DIGEST not in archive.namelist():
            return False
        if archive.read(DIGEST).decode("ascii", "replace") != expected:
            raise ValueError("its content does not have the digest that it was written with")
    return True


def content_digest(archive: zipfile.ZipFile) -> str:
    """SHA-256 of the names and contents of all entries but the digest, in hexadecimal."""
    names = sorted(archive.namelist())
    if len(set(names)) < len(names):
        raise ValueError("it holds two entries of the same name")
    whole = sha256()
    for name in names:
        if name != DIGEST:
            # Of fixed length each, so that no name can pass for a content.
            whole.update(sha256(name.encode()).digest())
            whole.update(sha256(archive.read(name)).digest())
    return whole.hexdigest()
