"""Writes of the health file: their time, and the last state in the file."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.manager.cache import Entry, HealthCache
from drahealth.manager.checkpoint import AGAIN, Checkpoint, HealthFile, load_health
from drahealth.manager.profile import KEP, Profile
from drahealth.manager.releases import NEWEST
from drahealth.proto.values import DeviceHealth, DeviceId, Health
from drahealth.suites.unit.manager.rig import StillClock, settle, until


class CountedFile(Checkpoint):
    """A file that knows how often it was written."""

    writes = 0

    def write_text(self, parts: Sequence[bytes], began: float) -> bool:
        self.writes += 1
        return super().write_text(parts, began)


class Story:
    """A cache that hears reports, and its file."""

    def __init__(self, path: Path, profile: Profile = KEP) -> None:
        self.path = path
        self.clock = StillClock()
        self.cache = HealthCache(profile)
        self.written = CountedFile(path)
        self.file = HealthFile(self.written, self.cache, self.clock)

    def told(self, message: str, driver: str = "a", timeout: int = 30) -> None:
        """A report of one device."""
        device = DeviceHealth("pool", "gpu", Health.UNHEALTHY, message, timeout)
        update = self.cache.update(driver, (device,), self.clock.now())
        if update.dirty:
            self.file.changed(driver)
        else:
            self.file.renewed(driver, update.renew_by)

    def on_file(self) -> dict[DeviceId, Entry]:
        data = json.loads(self.path.read_text()) if self.path.exists() else {}
        return dict(load_health(data, self.clock.now(), self.clock.wall()))

    def holds_all(self) -> bool:
        return self.on_file() == dict(self.cache.entries())


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Story]:
    story = Story(tmp_path / "dra_health_state")
    yield story
    await story.file.close()


async def test_change_is_written_to_the_file(story: Story) -> None:
    story.told("xid 79")
    await until(story.holds_all)


async def test_written_waits_until_the_file_has_all_changes(story: Story) -> None:
    story.told("xid 79")
    await story.file.written()
    assert story.holds_all()


async def test_an_abandoned_file_is_not_written_any_more(story: Story) -> None:
    story.told("before")
    await story.file.written()
    story.told("pending")
    story.file.abandon()
    story.told("later")
    await story.file.close()
    await story.file.written()
    assert [entry.message for entry in story.on_file().values()] == ["before"]


async def test_changes_that_come_together_are_one_write(story: Story) -> None:
    for driver in "abc":
        for number in range(100):
            story.told(str(number), driver)
    await until(story.holds_all)
    assert story.written.writes == 1


async def test_changes_during_the_pause_of_the_writer_are_written_afterwards(story: Story) -> None:
    for number in range(20):
        story.told(str(number))
        await until(story.holds_all)


async def test_heartbeats_of_all_drivers_share_one_write_at_half_of_the_shortest_timeout(story: Story) -> None:
    for driver in "abc":
        story.told("", driver, timeout=60 if driver == "a" else 300)
    await until(story.holds_all)
    for _ in range(9):
        story.clock.jump(3)
        for driver in "abc":
            story.told("", driver, timeout=60 if driver == "a" else 300)
        await settle()
    assert story.written.writes == 1
    story.clock.jump(3)
    await until(lambda: [entry.updated for entry in story.on_file().values()] == [27.0] * 3)
    assert story.written.writes == 2


async def test_write_of_a_change_includes_pending_heartbeats(story: Story) -> None:
    for driver in "ab":
        story.told("", driver)
    await until(story.holds_all)
    story.clock.jump(2)
    story.told("", "a")
    story.told("xid 79", "b")
    await until(story.holds_all)


async def test_1_37_writes_heartbeats_only_together_with_a_change(tmp_path: Path) -> None:
    story = Story(tmp_path / "state", NEWEST)
    for seconds, message in ((0, ""), (2, ""), (4, "xid 79"), (6, "xid 79")):
        story.clock.jump(2)
        story.told("", "a")
        story.told(message, "b")
        if seconds % 4 == 0:
            await until(story.holds_all)
    await story.file.close()
    assert [entry.updated for entry in story.on_file().values()] == [6.0, 6.0]


async def test_close_writes_pending_changes(story: Story) -> None:
    story.told("xid 79")
    await story.file.close()
    assert story.holds_all()
    story.clock.jump(1)
    story.told("xid 79")
    await story.file.close()
    assert [entry.updated for entry in story.on_file().values()] == [1.0]


async def test_next_write_includes_changes_of_a_failed_write(story: Story) -> None:
    story.path.mkdir()
    story.told("xid 79", "a")
    await until(lambda: story.written.writes)
    story.path.rmdir()
    story.told("xid 48", "b")
    await until(story.holds_all)


async def test_failed_write_is_retried_without_a_new_change(story: Story) -> None:
    story.path.mkdir()
    story.told("xid 79")
    await until(lambda: story.written.writes == 1)
    await settle()
    story.clock.jump(AGAIN)
    await until(lambda: story.written.writes == 2)
    story.path.rmdir()
    await settle()
    story.clock.jump(AGAIN)
    await until(story.holds_all)


async def test_successful_write_is_not_repeated(story: Story) -> None:
    story.told("xid 79")
    await until(story.holds_all)
    await settle()
    story.clock.jump(10 * AGAIN)
    story.told("xid 48", "b")
    await until(story.holds_all)
    assert story.written.writes == 2


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "x", "clear", "pause"])), max_size=20)


@given(steps=STEPS)
async def test_closed_file_holds_the_cache_after_any_sequence_of_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    story = Story(tmp_path_factory.mktemp("any") / "state")
    for driver, what in steps:
        story.clock.jump(1)
        if what == "clear":
            story.cache.clear(driver)
            story.file.changed(driver)
        elif what == "pause":
            await asyncio.sleep(0.003)
        else:
            story.told(what, driver)
    await story.file.close()
    assert story.holds_all()


async def test_loaded_entries_are_written_with_the_first_change(story: Story, tmp_path: Path) -> None:
    story.told("xid 79", "a")
    await story.file.close()
    after = Story(story.path)
    after.file.load()
    after.told("xid 48", "b")
    await after.file.close()
    assert after.on_file().keys() == {DeviceId("a", "pool", "gpu"), DeviceId("b", "pool", "gpu")}
