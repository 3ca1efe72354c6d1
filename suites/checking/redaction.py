"""Keeps secrets and names of this machine out of evidence. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

SECRET = "[redacted]"
"""Replaces a secret."""
HOST = "redacted-host"
"""Replaces the name of this machine; like it, a DNS label, because drivers use it in names of objects."""

_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|(api|private|access|signing|encryption)_?key"
    r"|(^|_)(pat|pass|pwd|pw|creds?)(_|$)|(^|_)auth(orization)?$",
    re.IGNORECASE,
)
_SHORTEST = 6
"""Characters of the shortest text that is replaced; shorter ones are words such as `true`."""
_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")
_USER_INFO = r"(?<=://)[^\s/?#]+(?=@)"
"""User and password of a URL (RFC 3986, section 3.2.1)."""


class Redaction:
    """Replaces texts in the strings of JSON values; longer texts first, so that a folder does not hide a file in it."""

    def __init__(self, secrets: Iterable[str] = (), paths: Mapping[str, str] | None = None, host: str = "") -> None:
        """`paths` has the replacement of each path. Paths of a single component are not replaced."""
        self._replaced: dict[str, str] = {}
        self._patterns: dict[str, str] = {}
        for path, replacement in (paths or {}).items():
            if len(PurePath(path).parts) > 2:  # the first part is the root
                self._replaced[path] = replacement
                self._patterns[path] = rf"(?<![\w.-]){re.escape(path)}(?![\w-]|\.\w)"
        if len(host) >= _SHORTEST and host != "localhost":
            self._replaced[host] = HOST
            self._patterns[host] = rf"(?<![\w-]){re.escape(host)}(?![\w-])"
        for secret in secrets:
            self.hide(secret)
        self._compile()

    def hide(self, secret: str) -> None:
        """Replaces this secret from now on; no effect if it is short."""
        if len(secret) >= _SHORTEST:
            self._replaced[secret] = SECRET
            self._patterns[secret] = re.escape(secret)
            self._compile()

    def __call__(self, value: Any) -> Any:
        """The decoded JSON value without these texts. Keys and numbers stay."""
        if isinstance(value, str):
            return self._pattern.sub(lambda found: self._replaced.get(found[0], SECRET), value)
        if isinstance(value, Mapping):
            return {key: self(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self(one) for one in value]
        return value

    def _compile(self) -> None:
        longest_first = sorted(self._patterns, key=len, reverse=True)
        self._pattern = re.compile("|".join([*(self._patterns[text] for text in longest_first), _USER_INFO]))


def secrets_in(named: Iterable[tuple[str, str]], is_path: Callable[[str], bool]) -> set[str]:
    """The values of variables and options whose names sound like secrets, except paths and placeholders."""
    return {
        value
        for name, value in named
        if _SECRET_NAME.search(re.sub(r"[-.]", "_", name)) and not _PLACEHOLDER.search(value) and not is_path(value)
    }


def options_in(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and values of a command line: `--name=value`, `--name value` and `NAME=value`."""
    for word, following in zip(words, [*words[1:], "-"], strict=False):
        name, equals, value = word.partition("=")
        if equals:
            yield name.lstrip("-"), value
        elif word.startswith("-") and not following.startswith("-"):
            yield name.lstrip("-"), following
