"""Sends the same requests to two API servers, and compares their normalised answers."""

import asyncio
import base64
import json
import re
import ssl
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import yaml
from yarl import URL

# Requests to an API server, in scenarios: the same requests go to two servers.
#
# Texts in paths and bodies can have references. `$NS` is the namespace of the scenario. `$uid:LABEL`, `$rv:LABEL`,
# `$name:LABEL` and `$continue:LABEL` are fields of the answer to an earlier request.

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_REFERENCE = re.compile(r"\$(NS|(?:uid|rv|name|continue):[a-z0-9-]+)")


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `label` is unique in its scenario; `type` is the content type, empty for none."""

    label: str
    method: str
    path: str
    body: Any = None
    """An object as JSON, a text as it is, or None."""
    type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    until: int | None = None
    """Repeat the request until the answer has this status: controllers of a real cluster take their time."""


def create(label: str, path: str, body: Any, **options: Any) -> Request:
    """The request that creates an object in a collection."""
    return Request(label, "POST", path, body, **options)


def get(label: str, path: str, **options: Any) -> Request:
    """The request that reads an object or a list."""
    return Request(label, "GET", path, **options)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Requests in order, in a namespace of their own whose name is that of the scenario."""

    name: str
    requests: Sequence[Request]


def resolved(value: Any, find: Callable[[str], str]) -> Any:
    """The value with every reference replaced by what `find` returns for it."""
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: find(match[1]), value)
    if isinstance(value, dict):
        return {resolved(key, find): resolved(item, find) for key, item in value.items()}
    return [resolved(item, find) for item in value] if isinstance(value, list) else value


# Sends the requests of a scenario to an API server and returns its answers.

_LIMIT = 60.0
"""Seconds for one request."""
_PATIENCE = 30.0
"""Seconds for the repetitions of a request."""
_INTERVAL = 0.2
_SAFE = "/?=&,:;!()%$+*'~.@-_"
_STREAMS = ("watch=1", "watch=true")
_AGENT = "same-answers/1.0"


@dataclass(frozen=True, slots=True)
class Answer:
    """The status, the compared headers, and the body: JSON, a list of the JSON lines of a watch, or text."""

    status: int
    headers: dict[str, list[str]]
    body: Any


class Player:
    """A session with one API server."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server

    async def play(self, scenario: Scenario) -> list[Answer]:
        """The answers to all requests. Raises TimeoutError if a request takes a minute."""
        name = scenario.name
        await self._send(Request("namespace", "POST", "/api/v1/namespaces", {"metadata": {"name": name}}))
        answers: dict[str, Answer] = {}

        def find(reference: str) -> str:
            if reference == "NS":
                return name
            field, _, label = reference.partition(":")
            return _field(field, answers[label].body)

        for request in scenario.requests:
            sent = Request(
                request.label,
                request.method,
                resolved(request.path, find),
                resolved(request.body, find),
                request.type,
                request.headers,
                request.until,
            )
            answers[request.label] = await self._until(sent)
        return list(answers.values())

    async def _until(self, request: Request) -> Answer:
        """The answer with the wanted status, or the last one after `_PATIENCE`."""
        end = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            answer = await self._send(request)
            if request.until in (None, answer.status) or asyncio.get_running_loop().time() > end:
                return answer
            await asyncio.sleep(_INTERVAL)

    async def _send(self, request: Request) -> Answer:
        headers = {"Accept": "application/json", "User-Agent": _AGENT, **request.headers}
        data = None
        if request.body is not None:
            data = (request.body if isinstance(request.body, str) else json.dumps(request.body)).encode()
            if request.type:
                headers["Content-Type"] = request.type
        url = self._server + quote(request.path, safe=_SAFE)
        async with self._session.request(
            request.method,
            URL(url, encoded=True),
            data=data,
            headers=headers,
            skip_auto_headers=["Content-Type"],
        ) as response:
            text = await response.text()
            kept = {name: response.headers.getall(name, []) for name in ("Content-Type", "Warning", "Allow")}
            body = _parsed(text, is_stream=response.status == 200 and any(word in url for word in _STREAMS))
            return Answer(response.status, {name: found for name, found in kept.items() if found}, body)


@asynccontextmanager
async def player(kubeconfig: str) -> AsyncIterator[Player]:
    """A player for the server of the text of a kubeconfig with a token."""
    config = yaml.safe_load(kubeconfig)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=_authority(cluster))
    context.check_hostname = False
    headers = {"Authorization": f"Bearer {user['token']}"}
    timeout = aiohttp.ClientTimeout(total=_LIMIT)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
        yield Player(session, cluster["server"])


async def play_all(player: Player, scenarios: Sequence[Scenario], *, at_once: int = 8) -> list[list[Answer]]:
    """The answers of all scenarios, some of which run at the same time."""
    places = asyncio.Semaphore(at_once)

    async def play(scenario: Scenario) -> list[Answer]:
        async with places:
            return await player.play(scenario)

    return await asyncio.gather(*(play(scenario) for scenario in scenarios))


def _authority(cluster: dict[str, str]) -> str:
    return base64.b64decode(cluster["certificate-authority-data"]).decode()


def _parsed(text: str, *, is_stream: bool) -> Any:
    try:
        return [json.loads(line) for line in text.splitlines()] if is_stream else json.loads(text)
    except ValueError:
        return text


def _field(name: str, body: Any) -> str:
    metadata = body.get("metadata", {}) if isinstance(body, dict) else {}
    key = {"uid": "uid", "rv": "resourceVersion", "name": "name", "continue": "continue"}[name]
    return str(metadata.get(key, f"NO-{name}"))


# Answers in a form that is equal on two servers that behave the same. Pure.
#
# UIDs and revisions get numbers in the order in which they first appear, so that equal ones stay equal. A new
# revision that is not greater than all before it is marked. Times and the letters of generated names are replaced.

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
        if name == "managedFields" and isinstance(item, list):
            # Kubernetes orders the entries by whole seconds, so the order depends on when a second ends.
            item = sorted(item, key=_writer)
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


def _writer(entry: Any) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("operation", "manager", "subresource", "apiVersion"))


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


# The differences between the answers of two servers, and those that are accepted, each with its reason. Pure.

ACCEPTED = Path(__file__).with_name("accepted.toml")
"""The accepted differences."""

ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs: `request` is SCENARIO/LABEL, `at` the path in the answer."""

    request: str
    at: str
    memory: Any
    real: Any

    def __str__(self) -> str:
        return f"{self.request}  {self.at}\n    memory: {shown(self.memory)}\n    real:   {shown(self.real)}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """Differences that are right: patterns of requests and of a path, and the reason."""

    requests: str
    at: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        return fnmatchcase(difference.request, self.requests) and fnmatchcase(difference.at, self.at)


def accepted(path: Path = ACCEPTED) -> list[Accepted]:
    """The accepted differences of the file. Raises OSError, ValueError and TypeError for a wrong file."""
    return [Accepted(**entry) for entry in tomllib.loads(path.read_text())["difference"]]


def differences(request: str, memory: Any, real: Any, at: str = "") -> Iterator[Difference]:
    """The smallest parts of two answers that differ."""
    if isinstance(memory, dict) and isinstance(real, dict):
        for key in sorted({*memory, *real}):
            path = f"{at}.{key}" if at else key
            yield from differences(request, memory.get(key, ABSENT), real.get(key, ABSENT), path)
    elif isinstance(memory, list) and isinstance(real, list) and len(memory) == len(real):
        for index, (one, other) in enumerate(zip(memory, real, strict=True)):
            yield from differences(request, one, other, f"{at}.{index}")
    elif memory != real or type(memory) is not type(real):
        yield Difference(request, at, memory, real)


def unexplained(found: Sequence[Difference], known: Sequence[Accepted]) -> list[Difference]:
    """The differences without a reason."""
    return [one for one in found if not any(entry.covers(one) for entry in known)]


def unused(found: Sequence[Difference], known: Sequence[Accepted]) -> list[Accepted]:
    """The accepted differences that no longer occur."""
    return [entry for entry in known if not any(entry.covers(one) for one in found)]
