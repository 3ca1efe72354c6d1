"""Files that are replaced atomically, and the files with the bearer tokens of servers."""

import hmac
import os
import re
import secrets
import stat
from pathlib import Path
from tempfile import NamedTemporaryFile

# Replace files atomically: a reader sees the old or the new file, even if the writer was killed.
#
# There is no fsync: after a power failure the last write can be lost.


def replace_file(path: Path, data: bytes, scratch: Path | None = None) -> None:
    """Writes `data` to `path`, readable by its owner only. Raises OSError, and then leaves the old file.

    The temporary file is in `scratch`, a directory of the same file system, or next to the file with a dot before its
    name.
    """
    with NamedTemporaryFile(dir=scratch or path.parent, prefix=".drahealth-", delete=False) as draft:
        try:
            draft.write(data)
            draft.close()
            os.replace(draft.name, path)  # noqa: PTH105  (both names are strings)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise


# The bearer token of a server: what a client sends in `Authorization: Bearer TOKEN` (RFC 6750, section 2.1).

_TOKEN = re.compile(r"[\w.~+/-]{16,}=*", re.ASCII)
"""The characters of RFC 6750."""


class TokenFileError(ValueError):
    """A file with a token that cannot be used; the message says what to do."""


class BearerToken:
    """A token that a server compares with those of requests."""

    def __init__(self, value: str) -> None:
        self.value = value
        self._expected = value.encode()

    @classmethod
    def kept_in(cls, path: Path) -> "BearerToken":
        """The token in this file, or a new one that is stored there, readable by its owner only.

        Raises TokenFileError for a file of another content, or that other users can read or have made; OSError.
        """
        try:
            text = _own_text(path)
        except FileNotFoundError:
            new = cls(secrets.token_urlsafe(32))
            replace_file(path, f"{new.value}\n".encode())
            return new
        if not _TOKEN.fullmatch(text):
            raise TokenFileError(f"{path} must contain a token of at least 16 characters; remove it to get a new one")
        return cls(text)

    def permits(self, header: str) -> bool:
        """Whether the header `Authorization` of a request has the token."""
        scheme, _, token = header.partition(" ")
        is_equal = hmac.compare_digest(token.strip().encode(errors="surrogateescape"), self._expected)
        return scheme.lower() == "bearer" and is_equal


def _own_text(path: Path) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise TokenFileError(f"{path} must be a file; remove it to get a new one")
        if found.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(found.st_mode) & 0o077:
            raise TokenFileError(f"other users can use {path}; remove it to get a new one")
        return file.read(4096).decode(errors="replace").strip()
