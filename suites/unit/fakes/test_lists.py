"""Lists over HTTP: pages, revisions, deletion of a collection, and watches that end."""

from collections.abc import AsyncIterator

import pytest

from drahealth.fakes.cluster.api import NODES, Object
from drahealth.suites.unit.fakes.test_api_http import Web, session_with

PATH = "/api/v1/nodes"


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    web = Web()
    await web.http.start()
    for name in "abc":
        await web.server.create(NODES, {"metadata": {"name": name}})
    async with session_with(web.http) as web.session:
        yield web
    await web.http.stop()


def names(listed: Object) -> list[str]:
    return [obj["metadata"]["name"] for obj in listed["items"]]


async def test_pages_show_the_list_at_the_time_of_the_first(web: Web) -> None:
    _, first = await web.call("GET", f"{PATH}?limit=2")
    await web.server.delete(NODES, "c")
    await web.server.create(NODES, {"metadata": {"name": "d"}})
    token = first["metadata"]["continue"]
    _, second = await web.call("GET", f"{PATH}?limit=2&continue={token}")
    assert (names(first), first["metadata"]["remainingItemCount"], names(second)) == (["a", "b"], 1, ["c"])
    assert "continue" not in second["metadata"]


async def test_selected_pages_do_not_say_how_many_are_left(web: Web) -> None:
    _, first = await web.call("GET", f"{PATH}?limit=1&fieldSelector=metadata.name!%3Da")
    assert (names(first), "remainingItemCount" in first["metadata"]) == (["b"], False)


async def test_list_can_be_of_an_earlier_revision(web: Web) -> None:
    revision = (await web.server.snapshot(NODES)).revision
    await web.server.delete(NODES, "a")
    _, before = await web.call("GET", f"{PATH}?resourceVersion={revision}&resourceVersionMatch=Exact")
    _, now = await web.call("GET", f"{PATH}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan")
    assert (names(before), names(now)) == (["a", "b", "c"], ["b", "c"])


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ("limit=x", 400, "BadRequest"),
        ("continue=x", 400, "BadRequest"),
        ("resourceVersion=x", 400, "BadRequest"),
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersion=1&resourceVersionMatch=Other", 422, "Invalid"),
        ("resourceVersion=999999", 504, "Timeout"),
        ("sendInitialEvents=true", 422, "Invalid"),
        ("watch=true&sendInitialEvents=true", 422, "Invalid"),
    ],
)
async def test_wrong_list_options_are_rejected(web: Web, query: str, status: int, reason: str) -> None:
    code, body = await web.call("GET", f"{PATH}?{query}")
    assert (code, body["reason"]) == (status, reason)


async def test_collection_is_deleted_by_selectors(web: Web) -> None:
    status, deleted = await web.call("DELETE", f"{PATH}?fieldSelector=metadata.name!%3Da")
    _, left = await web.call("GET", PATH)
    assert (status, deleted["kind"], names(deleted), names(left)) == (200, "NodeList", ["b", "c"], ["a"])


async def test_watch_ends_after_its_timeout(web: Web) -> None:
    status, body = await web.call("GET", f"{PATH}?watch=true&timeoutSeconds=1&resourceVersion=99")
    assert (status, body) == (200, "")


async def test_form_of_the_answer_must_be_known(web: Web) -> None:
    status, body = await web.call("GET", PATH, headers={"Accept": "text/html"})
    assert (status, body["reason"]) == (406, "NotAcceptable")
