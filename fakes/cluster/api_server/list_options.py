"""The options of lists and watches, read and checked as a real API server does. Pure.

Source: k8s.io/apimachinery, `pkg/apis/meta/internalversion/validation`, ValidateListOptions.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass

from drahealth.fakes.cluster.api import Kind
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.refusals import FieldError

_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a client asks for, besides selectors. `timeout` in seconds."""

    watch: bool = False
    limit: int = 0
    start: "Continue | None" = None
    """Where the previous page has ended."""
    revision: str = ""
    exact: bool = False
    """The list must be of this revision."""
    timeout: int | None = None
    bookmarks: bool = False
    initial_events: bool = False
    """The watch begins with the existing objects, and a bookmark after them."""

    def page_limit(self, kind: Kind) -> int:
        """The limit of a page. The watch cache, which answers at revision 0, ignores it; Events have no cache."""
        is_cached = self.revision == "0" and self.start is None and kind.kind != "Event"
        return 0 if is_cached else self.limit


@dataclass(frozen=True, slots=True)
class Continue:
    """The place after a page: the revision of the list, and the key of the last object."""

    revision: int
    key: tuple[str, str]

    def token(self) -> str:
        """The token of this place, in the form of Kubernetes."""
        start = "/".join(part for part in self.key if part)
        text = json.dumps({"v": "meta.k8s.io/v1", "rv": self.revision, "start": f"{start}\0"}, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def list_options(query: Mapping[str, str]) -> ListOptions:
    """The options in a query. Raises `ApiError` 400 or 422."""
    watch, initial = _flag(query, "watch"), _flag(query, "sendInitialEvents")
    match, revision = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    limit, timeout = _number(query, "limit"), _number(query, "timeoutSeconds")
    errors = _watch_errors(query, match) if watch else _list_errors(query, match, revision)
    if errors:
        raise refusals.invalid_options("ListOptions", errors)
    if query.get("continue") and revision not in ("", "0") and not watch:
        raise refusals.bad_request("specifying resource version is not allowed when using continue")
    start = continue_of(query["continue"]) if query.get("continue") and not watch else None
    return ListOptions(
        bool(watch),
        max(limit or 0, 0),
        start,
        revision,
        match == _EXACT,
        timeout or None,
        bool(_flag(query, "allowWatchBookmarks")),
        bool(initial),
    )


def _list_errors(query: Mapping[str, str], match: str, revision: str) -> list[FieldError]:
    at, errors = "resourceVersionMatch", list[FieldError]()
    if match and not revision:
        errors.append(refusals.forbidden(at, f"{at} is forbidden unless resourceVersion is provided"))
    if match and query.get("continue"):
        errors.append(refusals.forbidden(at, f"{at} is forbidden when continue is provided"))
    if match not in ("", _EXACT, _NOT_OLDER):
        errors.append(refusals.unsupported_value(at, match, (_EXACT, _NOT_OLDER, "")))
    if match == _EXACT and revision == "0":
        errors.append(refusals.forbidden(at, f'{at} "exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in query:
        errors.append(refusals.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(query: Mapping[str, str], match: str) -> list[FieldError]:
    at, errors, initial = "resourceVersionMatch", list[FieldError](), "sendInitialEvents" in query
    if initial and match != _NOT_OLDER:
        errors.append(refusals.forbidden(at, f"sendInitialEvents requires setting {at} to {_NOT_OLDER}"))
    if match and not initial:
        errors.append(refusals.forbidden(at, f"{at} is forbidden for watch unless sendInitialEvents is provided"))
    if match not in ("", _NOT_OLDER):
        errors.append(refusals.unsupported_value(at, match, (_NOT_OLDER,)))
    if query.get("continue") and (match or query.get("resourceVersion", "") in ("", "0")):
        errors.append(refusals.forbidden(at, f"{at} is forbidden when continue is provided"))
    return errors


def continue_of(token: str) -> Continue:
    """The place of a token. Raises `ApiError` 400."""
    try:
        found = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
        start = found["start"].removesuffix("\0").removeprefix("/")
        namespace, _, name = start.rpartition("/")
        return Continue(int(found["rv"]), (namespace, name))
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError):
        raise refusals.bad_request("invalid continue token: continue key is not valid") from None


def _flag(query: Mapping[str, str], name: str) -> bool | None:
    """A boolean as Kubernetes reads it: present means true, unless it is 0 or false."""
    if name not in query:
        return None
    return query[name].lower() not in ("0", "false")


def _number(query: Mapping[str, str], name: str) -> int | None:
    if not (text := query.get(name)):
        return None
    try:
        return int(text)
    except ValueError:
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{text:.80}": invalid syntax') from None
