"""The client of real API servers with bad configurations, lost connections and unexpected answers."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from drahealth.fakes.cluster.api import NODES, PODS, ApiError, Object
from drahealth.fakes.cluster.api_server.http import HttpApi
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.api_server.storage import HISTORY
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.kube_connection import refusal
from drahealth.suites.unit.answering_server import kubeconfig_of
from drahealth.suites.unit.endings import PATIENCE


class Reach:
    """An API server over HTTP, and a client of it."""

    def __init__(self, folder: Path) -> None:
        self.server = ApiServer()
        self.http = HttpApi(self.server)
        self.kubeconfig = folder / "kubeconfig"

    async def open(self) -> None:
        await self.http.start()
        self.http.write_kubeconfig(self.kubeconfig)
        self.client = await KubeClient.from_kubeconfig(self.kubeconfig)


@pytest.fixture
async def reach(tmp_path: Path) -> AsyncIterator[Reach]:
    reach = Reach(tmp_path)
    await reach.open()
    yield reach
    await reach.client.close()
    await reach.http.stop()


async def until_the_end(reach: Reach, watching: asyncio.Event) -> list[str]:
    """The names that a watch gives: of what it lists, and then of one more; `watching` is set when that has come."""
    seen: list[str] = []
    await reach.server.create(NODES, {"metadata": {"name": "listed"}})
    async for event in reach.client.watch(NODES):
        seen.append(event.object["metadata"]["name"])
        if seen == ["listed"]:
            await reach.server.create(NODES, {"metadata": {"name": "watched"}})
        else:
            watching.set()
    return seen


def test_importing_it_does_not_import_the_official_client() -> None:
    imports = "import sys, drahealth.fakes.cluster.kube_client, drahealth.fakes.cluster.api_server.http"
    code = f"{imports}; print({{'kubernetes', 'aiohttp'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "the file is empty"),
        ("{}", "it has no contexts"),
        ("a: [", "line 1: invalid YAML: expected the node content"),
        ("[]", "it must be a kubeconfig with `apiVersion: v1` and `kind: Config`"),
        ("a: 1\n---\nb: 1", "it must have one YAML document"),
        ("{clusters: [], contexts: [{name: y}], current-context: x}", "it has no context 'x'; valid: y"),
        (
            "{clusters: [], contexts: [{name: x, context: {cluster: c}}], current-context: x}",
            "Invalid kube-config file",
        ),
    ],
)
async def test_bad_kubeconfig_is_rejected_on_one_line_with_its_path(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"^kubeconfig ") as refused:
        await KubeClient.from_kubeconfig(path)
    assert str(refused.value).startswith(f"kubeconfig {path}: {why}")
    assert "\n" not in str(refused.value)


async def test_missing_kubeconfig_and_missing_context_are_reported(reach: Reach, tmp_path: Path) -> None:
    for nothing, why in ((tmp_path / "nothing", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ValueError, match=f"^kubeconfig {nothing}: {why}$"):
            await KubeClient.from_kubeconfig(nothing)
    with pytest.raises(ValueError, match="'other'"):
        await KubeClient.from_kubeconfig(reach.kubeconfig, context="other")


async def test_a_server_that_cannot_be_reached_is_unavailable(reach: Reach) -> None:
    await reach.http.stop()
    for call in (reach.client.list(PODS), anext(reach.client.watch(PODS)), anext(reach.client.watch(PODS, since="1"))):
        with pytest.raises(ApiError) as error:
            await call
        assert (error.value.status, error.value.reason) == (503, "ServiceUnavailable")
        assert "cannot reach the API server https://127.0.0.1:" in error.value.message


async def test_a_server_that_is_down_is_unavailable(reach: Reach) -> None:
    reach.server.down()
    for call in (reach.client.list(PODS), anext(reach.client.watch(PODS, since="1"))):
        with pytest.raises(ApiError) as error:
            await call
        assert (error.value.status, error.value.reason) == (503, "ServiceUnavailable")


@pytest.mark.parametrize("how", ["the server restarts", "the server goes away", "the client is closed"])
async def test_watch_ends_when_client_or_server_ends(reach: Reach, how: str) -> None:
    watching = asyncio.Event()
    task = asyncio.create_task(until_the_end(reach, watching))
    await asyncio.wait_for(watching.wait(), PATIENCE)
    if how == "the server restarts":
        reach.server.restart()
    elif how == "the server goes away":
        await reach.http.stop()
    else:
        await reach.client.close()
    assert await asyncio.wait_for(task, PATIENCE) == ["listed", "watched"]


async def test_a_watch_from_before_the_history_is_expired(reach: Reach) -> None:
    for number in range(HISTORY + 1):
        name = f"node-{number % 2}"
        if number > 1:
            await reach.server.delete(NODES, name)
        await reach.server.create(NODES, {"metadata": {"name": name}})
    with pytest.raises(ApiError) as error:
        await anext(reach.client.watch(NODES, since="3"))
    assert (error.value.status, error.value.reason) == (410, "Expired")


BOOKMARK: Object = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}
ADDED: Object = {"type": "ADDED", "object": {"metadata": {"name": "node"}}}


def error(code: int, reason: str) -> Object:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": reason, "message": "m"}}


@asynccontextmanager
async def client_of(lines: list[Object], folder: Path) -> AsyncIterator[KubeClient]:
    """A client of a server that has no nodes and answers every watch with these lines."""

    async def answer(request: web.Request) -> web.Response:
        if "watch" in request.query:
            return web.Response(text="".join(json.dumps(line) + "\n" for line in lines))
        return web.json_response({"items": None, "metadata": {"resourceVersion": "5"}})

    app = web.Application()
    app.router.add_get(NODES.path(), answer)
    async with kubeconfig_of(app, folder) as kubeconfig:
        client = await KubeClient.from_kubeconfig(kubeconfig)
        yield client
        await client.close()


async def test_watch_skips_bookmarks_and_ends_when_expired(tmp_path: Path) -> None:
    async with client_of([BOOKMARK, ADDED, BOOKMARK, error(410, "Expired"), ADDED], tmp_path) as client:
        assert [event.type async for event in client.watch(NODES)] == ["ADDED"]


@pytest.mark.parametrize(("since", "code"), [(None, 500), ("5", 500), ("5", 410)])
async def test_other_errors_of_a_watch_are_raised(tmp_path: Path, since: str | None, code: int) -> None:
    async with client_of([error(code, "Reason")], tmp_path) as client:
        with pytest.raises(ApiError) as refused:
            await anext(client.watch(NODES, since=since))
    assert (refused.value.status, refused.value.reason, refused.value.message) == (code, "Reason", "m")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a?b", "%2e", "A"])
async def test_invalid_name_is_not_used_in_a_path(reach: Reach, name: str) -> None:
    await reach.server.create(NODES, {"metadata": {"name": "node"}})
    for call in (reach.client.get(NODES, name), reach.client.delete(NODES, name)):
        with pytest.raises(ApiError) as error:
            await call
        assert error.value.message == f'nodes "{name}" not found'
    assert len(await reach.server.list(NODES)) == 1


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ({"kind": "Status", "code": 409, "reason": "Conflict", "message": "m"}, "", (409, "Conflict", "m")),
        ({"kind": "Status", "message": "m"}, "", (502, "BadGateway", "m")),
        (None, " <html> ", (502, "BadGateway", "<html>")),
        ({"error": "x"}, "", (502, "BadGateway", "no message")),
    ],
)
def test_error_answers_become_api_errors(
    answer: dict[str, object] | None, text: str, expected: tuple[int, str, str]
) -> None:
    error = refusal(502, "Bad Gateway", answer, text)
    assert (error.status, error.reason, error.message) == expected
