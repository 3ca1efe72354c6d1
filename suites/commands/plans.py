"""What the command shows of plans, and writes of drivers that it listened to."""

import asyncio
import json
import math
import sys
from contextlib import suppress
from pathlib import Path

from drahealth.fakes.files.user_files import FileError
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.inventory.file import load_inventory
from drahealth.fakes.timelines.dump import dump
from drahealth.fakes.timelines.schema import timeline_schema
from drahealth.fakes.timelines.story import stories
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.run.outputs import check_file


def write_recording(socket: Path, output: Path | None, *, seconds: float | None, messages: int | None) -> None:
    """Records until the end, or Ctrl-C. Raises ConfigurationError, HarnessError."""
    from drahealth.suites.timelines.record import Recorder

    check_file(str(output) if output else None)
    recorder = Recorder(socket, seconds=seconds or math.inf, messages=messages)
    with suppress(KeyboardInterrupt):
        asyncio.run(recorder.listen())
    recording = recorder.recording()
    text = dump(recording.timeline())
    if output:
        output.write_text(text, encoding="utf-8")
        sys.stderr.write(f"{len(recording.heard)} messages of {recording.health_api.name} in {output}\n")
    else:
        sys.stdout.write(text)


def show_plan(
    file: Path | None, *, seed: int | None, devices: int, partitions: int, inventory: Path | None, schema: bool
) -> None:
    """The plans of a file's timelines as JSON Lines, or the schema of such files. Raises ConfigurationError."""
    if schema:
        sys.stdout.write(json.dumps(timeline_schema(), indent=1) + "\n")
        return
    if file is None:
        raise ConfigurationError("there is no file to plan", "name a timeline, or --schema")
    lines: list[str] = []
    try:
        there = load_inventory(inventory) if inventory else Inventory.of(devices, partitions=partitions)
        for story in stories(file, seed=seed, inventory=there):
            lines += story.plan.to_lines()
    except FileError as error:
        raise ConfigurationError(str(error)) from None
    except OSError as error:
        raise ConfigurationError(f"{error.filename or file} cannot be read: {error.strerror}") from None
    with suppress(BrokenPipeError):  # who reads has seen enough
        sys.stdout.writelines(line + "\n" for line in lines)
        sys.stdout.flush()
