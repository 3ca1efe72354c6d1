"""Status files on a temporarily unwritable disk."""

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.suites.manager_command.output import AGAIN, HEADER, StatusFiles
from drahealth.suites.unit.manager.rig import StillClock, settle, until


class Story:
    """The files of `folder`, with time under control."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = StillClock()
        self.files = StatusFiles(folder, self.clock)

    def shows(self, name: str, phase: str) -> None:
        self.files.change(pod(name, phase))

    def says(self, name: str, phase: str) -> bool:
        path = self.path(name)
        return path.is_file() and f"phase: {phase}" in path.read_text()

    def path(self, name: str) -> Path:
        return self.folder / f"default.{name}.status.yaml"

    async def tries_again(self) -> None:
        """After the pause, once what waits for it does so."""
        await settle()
        self.clock.jump(AGAIN)


def pod(name: str, phase: str = "Running") -> Object:
    return {"metadata": {"namespace": "default", "name": name, "uid": name}, "status": {"phase": phase}}


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Story]:
    story = Story(tmp_path)
    running = asyncio.create_task(story.files.run())
    yield story
    await cancel_and_wait(running)


async def in_vain(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    """A file that cannot be written, after the error was logged."""
    story.path("job").mkdir()
    story.shows("job", "Running")
    await until(lambda: "cannot be written" in caplog.text)


async def test_failed_status_write_is_retried(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    await in_vain(story, caplog)
    story.path("job").rmdir()
    await story.tries_again()
    await until(lambda: story.says("job", "Running"))


async def test_retry_does_not_overwrite_a_newer_status(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    await in_vain(story, caplog)
    story.path("job").rmdir()
    story.shows("job", "Failed")
    await until(lambda: story.says("job", "Failed"))
    await story.tries_again()
    story.shows("fence", "Running")
    await until(lambda: story.says("fence", "Running"))
    assert story.says("job", "Failed")


async def test_failed_removal_of_a_status_file_is_retried(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    story.path("job").mkdir()
    story.files.delete(pod("job"))
    await until(lambda: "cannot be written" in caplog.text)
    story.path("job").rmdir()
    story.path("job").write_text(HEADER)
    await story.tries_again()
    await until(lambda: not story.path("job").exists())


async def test_repeated_write_failure_is_logged_once(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    await in_vain(story, caplog)
    for phase in ("Pending", "Running", "Failed"):
        await story.tries_again()
        story.shows("fence", phase)
        await until(partial(story.says, "fence", phase))
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


async def test_flush_retries_failed_writes(story: Story, tmp_path: Path) -> None:
    files = StatusFiles(tmp_path, story.clock)
    story.path("job").mkdir()
    files.change(pod("job"))
    files.flush()
    story.path("job").rmdir()
    files.flush()
    assert story.says("job", "Running")
