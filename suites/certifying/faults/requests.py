"""Adapters that send requests: to an HTTP server, and to the API server of the driver."""

from collections.abc import Mapping
from typing import Any

import aiohttp

from drahealth.fakes.cluster.api import KINDS, ApiError, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.proto.quoting import one_line
from drahealth.suites.checking.subject.adapters import ActionFailed

_ATTEMPTS = 5
_CONFLICT = 409
_FIRST_ERROR = 400
_WORDS = 300  # characters of an answer


async def call_http(url: str, method: str, body: str, headers: Mapping[str, str]) -> None:
    """Sends a request. Raises ActionFailed if there is no answer, or an error."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=body or None, headers=headers, allow_redirects=False) as response,
        ):
            if response.status >= _FIRST_ERROR:
                text = one_line(await response.text(errors="replace"), _WORDS)
                raise ActionFailed(f"{method} {url} was answered with status {response.status}: {text}")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ActionFailed(f"{method} {url} failed: {one_line(str(error) or type(error).__name__, _WORDS)}") from None


async def patch(api: ListWatch | None, kind: str, name: str, namespace: str, merge: Mapping[str, Any]) -> None:
    """Merges fields into an object. Raises ActionFailed."""
    found = next((one for one in KINDS if one.kind == kind), None)
    if api is None:
        raise ActionFailed("the driver has no API server")
    if found is None:
        raise ActionFailed(f"kind must be one of {', '.join(one.kind for one in KINDS)}, got {kind}")
    for attempt in range(_ATTEMPTS):
        try:
            old = await api.get(found, name, (namespace or "default") if found.namespaced else None)
            new = merged(old, merge)
            stored = await api.replace(found, new)
            if "status" in merge:
                await api.replace_status(found, {**stored, "status": new.get("status")})
        except ApiError as error:
            if error.status != _CONFLICT or attempt == _ATTEMPTS - 1:
                raise ActionFailed(f"cannot patch {kind} {name}: {error}") from None
        else:
            return


def merged(target: Any, changes: Any) -> Any:
    """The target after a JSON merge patch. Source: RFC 7396, section 2."""
    if not isinstance(changes, Mapping):
        return changes
    result: Object = dict(target) if isinstance(target, Mapping) else {}
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
