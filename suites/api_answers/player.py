"""Sends the requests of a scenario to an API server and returns its answers."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp
import yaml
from yarl import URL

from drahealth.suites.api_answers.request import Request, Scenario, resolved

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
