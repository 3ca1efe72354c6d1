"""Keeps secrets and paths of this machine out of evidence. Pure."""

import json
import re
from collections.abc import Mapping

_SECRET = re.compile(r"token|secret|passw|credential|api_?key|private_?key", re.IGNORECASE)
_SHORTEST = 6
"""Characters of the shortest value that counts as a secret; shorter ones are words such as `true`."""


class Redaction:
    """Replaces texts in a line of JSON; longer texts first, so that a folder does not hide a file in it."""

    def __init__(self, replaced: Mapping[str, str]) -> None:
        """`replaced` has the replacement of each text; an empty text is ignored."""
        quoted = {json.dumps(old)[1:-1]: json.dumps(new)[1:-1] for old, new in replaced.items() if old}
        self._replaced = quoted
        texts = sorted(quoted, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, texts))) if texts else None

    def __call__(self, line: str) -> str:
        """The line without these texts."""
        return self._pattern.sub(lambda found: self._replaced[found[0]], line) if self._pattern else line


def secrets_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The values of variables whose names sound like secrets, with their replacements."""
    return {
        value: "[redacted]"
        for name, value in environment.items()
        if _SECRET.search(name) and len(value) >= _SHORTEST and "/" not in value
    }
