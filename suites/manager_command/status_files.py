"""The statuses of the pods, in files beside their manifests: `NAMESPACE.POD.status.yaml`, each replaced as a whole.

A namespace has no dot in its name, so file names are unique. Files with another first line are not touched. A failed
write or removal is retried until it works or the pod has a newer status.
"""

import asyncio
import io
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ruamel.yaml import YAML

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.program.atomic import replace_file
from drahealth.proto.clock import Clock
from drahealth.suites.manager_command.manifest_directory import STATUS_SUFFIX

HEADER = "# Status of a pod. drahealth manager writes this file after each change, and never reads it.\n"
GATHERING = 0.05
"""Seconds in which the changes of a pod become one."""
AGAIN = 1.0
"""Seconds from a failure to the next attempt."""

log = logging.getLogger(__name__)


def file_name(pod: Object) -> str:
    """The name of the pod's file."""
    return f"{pod['metadata']['namespace']}.{pod['metadata']['name']}{STATUS_SUFFIX}"


def text_of(pod: Object) -> str:
    """The content of the pod's file."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    shown = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": pod.get("status", {})}
    yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 1 << 20
    yaml.dump(shown, stream)
    return HEADER + stream.getvalue()


class StatusFiles:
    """Keeps the files in `folder` current while `run` runs."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._due: dict[str, Object | None] = {}
        self._failed: dict[str, Object | None] = {}
        self._woken = asyncio.Event()
        self._failing = asyncio.Event()
        self._told: set[str | None] = set()

    def change(self, pod: Object) -> None:
        """Sets the pod's status."""
        self._due[file_name(pod)] = pod
        self._woken.set()

    def delete(self, pod: Object) -> None:
        """Removes the pod's file."""
        self._due[file_name(pod)] = None
        self._woken.set()

    async def run(self) -> None:
        """Writes pending files until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_due(), name="status files")
            group.create_task(self._try_again(), name="status files, again")

    async def _write_due(self) -> None:
        while True:
            await self._woken.wait()
            await asyncio.sleep(GATHERING)
            self._woken.clear()
            for name in list(self._due):
                self._write(name, self._due.pop(name))
                await asyncio.sleep(0)

    async def _try_again(self) -> None:
        while True:
            await self._failing.wait()
            await self._clock.sleep(AGAIN)
            self._failing.clear()
            self._make_due()
            self._woken.set()

    def _make_due(self) -> None:
        """Schedules failed writes again, unless there is a newer status."""
        self._due = self._failed | self._due
        self._failed = {}

    def flush(self) -> None:
        """Writes all pending and failed files now."""
        self._make_due()
        while self._due:
            self._write(*self._due.popitem())

    def sweep(self) -> None:
        """Removes files of deleted pods that an earlier program left; writes those of existing pods again."""
        for path in self._ours():
            self._write(path.name, None)

    def _ours(self) -> Iterator[Path]:
        for path in self._folder.glob(f"*{STATUS_SUFFIX}"):
            with suppress(OSError):  # who cannot read it does not know whose it is
                if path.is_file() and _begins_as_ours(path):
                    yield path

    def _write(self, name: str, pod: Object | None) -> None:
        path = self._folder / name
        self._failed.pop(name, None)
        try:
            if pod is None:
                path.unlink(missing_ok=True)
            else:
                replace_file(path, text_of(pod).encode())
        except OSError as error:
            self._failed[name] = pod
            self._failing.set()
            if error.strerror not in self._told:
                log.error("%s cannot be written: %s; retrying each second", path, error.strerror)
            self._told.add(error.strerror)
        else:
            if not self._failed:
                self._told.clear()


def _begins_as_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER.encode()
