"""The output of `drahealth plan` and `drahealth record`."""

import asyncio
import json
import math
import sys
from contextlib import suppress
from pathlib import Path

from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.inventory.file import load_inventory
from drahealth.fakes.program.user_files import FileError
from drahealth.fakes.timelines.dump import dump
from drahealth.fakes.timelines.schema import timeline_schema
from drahealth.fakes.timelines.story import stories
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.output_paths import check_output_file


def write_recording(socket: Path, output: Path | None, *, seconds: float | None, messages: int | None) -> None:
    """Record a driver until its stream ends, or Ctrl-C. Raises ConfigurationError, HarnessError."""
    from drahealth.suites.commands.record import Recorder

    check_output_file(str(output) if output else None)
    recorder = Recorder(socket, seconds=seconds or math.inf, messages=messages)
    with suppress(KeyboardInterrupt):
        asyncio.run(recorder.listen())
    recording = recorder.recording()
    text = dump(recording.timeline())
    if output:
        output.write_text(text, encoding="utf-8")
        sys.stderr.write(f"{len(recording.messages)} messages of {recording.health_api.name} in {output}\n")
    else:
        sys.stdout.write(text)


def show_plan(
    file: Path | None, *, seed: int | None, devices: int, partitions: int, inventory: Path | None, schema: bool
) -> None:
    """Print the plans of a file as JSON Lines, or the JSON Schema of timelines. Raises ConfigurationError."""
    if schema:
        sys.stdout.write(json.dumps(timeline_schema(), indent=1) + "\n")
        return
    if file is None:
        raise ConfigurationError("missing argument FILE", "pass a timeline, or --schema")
    lines: list[str] = []
    try:
        there = load_inventory(inventory) if inventory else Inventory.of(devices, partitions=partitions)
        for story in stories(file, seed=seed, inventory=there):
            lines += story.plan.to_lines()
    except FileError as error:
        raise ConfigurationError(str(error)) from None
    except OSError as error:
        raise ConfigurationError(f"{error.filename or file} cannot be read: {error.strerror}") from None
    with suppress(BrokenPipeError):  # the reader has closed the pipe
        sys.stdout.writelines(line + "\n" for line in lines)
        sys.stdout.flush()
