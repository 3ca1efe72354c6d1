"""Answers in a form that is equal on two servers that behave the same. Pure.

UIDs and revisions get numbers in the order in which they first appear, so that equal ones stay equal. A new revision
that is not greater than all before it is marked. Times and the letters of generated names are replaced.
"""

import json
import re
from typing import Any

from drahealth.suites.api_answers.player import Answer

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z")
_GENERATED = re.compile(r"(generated-|generatedb+)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_REVISION_TEXT = re.compile(r"(?<=in record \()\d+(?=\))|(?<=in object meta: )\d+")
_AGE = re.compile(r"\d+s")
_CURRENT = re.compile(r"(?<=current: )\d+")


class Normal:
    """Normalises the answers of one scenario of one server, in order."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._revisions: dict[int, str] = {}

    def answer(self, answer: Answer) -> dict[str, Any]:
        return {"status": answer.status, "headers": answer.headers, "body": self._value(answer.body)}

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            if value.get("type") == "BOOKMARK":
                return {**value, "object": _without_revision(value["object"])}
            is_list = isinstance(value.get("items"), list) or isinstance(value.get("rows"), list)
            return {self._text(name): self._field(item, name, is_list) for name, item in value.items()}
        if isinstance(value, list):
            return [self._value(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _field(self, item: Any, name: str, is_list: bool) -> Any:
        if is_list and name == "metadata":
            return {key: _list_field(key, field) for key, field in item.items()}
        if name == "resourceVersion" and isinstance(item, str) and item.isdecimal():
            return self._revision(int(item))
        return self._value(item)

    def _revision(self, number: int) -> str:
        if number not in self._revisions:
            is_newest = number > max(self._revisions, default=0)
            self._revisions[number] = f"revision {len(self._revisions) + 1}{'' if is_newest else ' (older)'}"
        return self._revisions[number]

    def _text(self, text: str) -> str:
        text = _UID.sub(lambda match: self._uids.setdefault(match[0], f"uid {len(self._uids) + 1}"), text)
        text = _REVISION_TEXT.sub(lambda match: self._revision(int(match[0])), text)
        if _AGE.fullmatch(text):
            return "AGE"
        text = _CURRENT.sub("NEWEST", text)
        return _GENERATED.sub(r"\1XXXXX", _TIME.sub("TIME", text))


def _without_revision(bookmark: Any) -> Any:
    """The object of a bookmark; its revision is that of the whole server."""
    return {**bookmark, "metadata": {**bookmark["metadata"], "resourceVersion": "NEWEST"}}


def _list_field(key: str, value: Any) -> Any:
    """The revision of a list is that of the whole server, and a token to continue is opaque."""
    return key.upper() if key in ("resourceVersion", "continue") and value else value


def shown(value: Any) -> str:
    """A value in one short line."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 300 else f"{text[:300]}..."
