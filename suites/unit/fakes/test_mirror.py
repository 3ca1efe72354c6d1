"""A local copy of API objects that watches keep current."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from drahealth.fakes.cluster.api import NODES, PODS, Kind, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.mirror import Mirror, when_ready

Seen = list[tuple[str, str | None, str | None]]


class Picture:
    """A mirror that runs, and what it told: name, and the label before and after."""

    def __init__(self) -> None:
        self.server = ApiServer()
        self.told: Seen = []
        self.mirror = Mirror(self.server, [PODS, NODES], self._changed, again=when_ready(self.server))

    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        name = (old or new or {})["metadata"]["name"]
        self.told.append((name, *(obj and obj["metadata"]["labels"]["is"] for obj in (old, new))))

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def node(name: str, label: str) -> Object:
    return {"metadata": {"name": name, "labels": {"is": label}}}


@pytest.fixture
async def picture() -> AsyncIterator[Picture]:
    picture = Picture()
    task = asyncio.create_task(picture.mirror.run())
    await picture.settle()
    yield picture
    task.cancel()
    await asyncio.wait([task])


async def test_mirror_is_complete_after_all_lists(picture: Picture) -> None:
    assert picture.mirror.whole.is_set()
    picture.server.down()
    await picture.settle()
    assert not picture.mirror.whole.is_set()


async def test_every_change_has_the_object_before_and_after(picture: Picture) -> None:
    await picture.server.create(NODES, node("a", "new"))
    await picture.settle()
    await picture.server.replace(NODES, node("a", "changed"))
    await picture.server.delete(NODES, "a")
    await picture.settle()
    assert picture.told == [("a", None, "new"), ("a", "new", "changed"), ("a", "changed", None)]
    assert picture.mirror.objects(NODES) == []


async def test_changes_during_a_server_outage_are_reported_later(picture: Picture) -> None:
    for name in ("a", "b"):
        await picture.server.create(NODES, node(name, "new"))
    await picture.settle()
    picture.server.restart()
    await picture.server.delete(NODES, "a")
    await picture.server.replace(NODES, node("b", "changed"))
    await picture.settle()
    assert picture.mirror.whole.is_set()
    assert ("a", "new", None) in picture.told
    assert ("b", "new", "changed") in picture.told


async def test_own_write_is_visible_at_once_despite_older_events(picture: Picture) -> None:
    await picture.server.create(NODES, node("a", "new"))
    picture.mirror.store(NODES, await picture.server.replace(NODES, node("a", "mine")))
    assert [obj["metadata"]["labels"]["is"] for obj in picture.mirror.objects(NODES)] == ["mine"]
    await picture.settle()
    assert picture.told == [("a", "mine", "mine")]
