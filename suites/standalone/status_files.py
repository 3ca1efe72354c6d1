"""The statuses of the pods as files beside their manifests: `NAMESPACE.POD.status.yaml`, replaced as a whole.

A namespace has no dot in its name, so no two pods have one file. A file that begins otherwise than ours is left alone.
"""

import asyncio
import io
import logging
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

from drahealth.fakes.api import Object
from drahealth.fakes.files import replace_file
from drahealth.suites.standalone.events import Event, PodGone, StatusChanged
from drahealth.suites.standalone.manifest_directory import STATUS_SUFFIX

HEADER = "# What drahealth manager says of a pod. It is written anew whenever that changes, and never read.\n"
GATHERING = 0.05
"""Seconds in which the changes of a pod become one."""

log = logging.getLogger(__name__)


def file_name(pod: Object) -> str:
    """What the pod's file is called."""
    return f"{pod['metadata']['namespace']}.{pod['metadata']['name']}{STATUS_SUFFIX}"


def text_of(pod: Object) -> str:
    """What the pod's file says."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    shown = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": pod.get("status", {})}
    yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 1 << 20
    yaml.dump(shown, stream)
    return HEADER + stream.getvalue()


class StatusFiles:
    """The onlooker that keeps them in `folder` while `run` runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._due: dict[str, Object | None] = {}
        self._woken = asyncio.Event()
        self._problem = ""

    def __call__(self, event: Event, /) -> None:
        match event:
            case StatusChanged(pod):
                self._due[file_name(pod)] = pod
            case PodGone(pod):
                self._due[file_name(pod)] = None
            case _:
                return
        self._woken.set()

    async def run(self) -> None:
        """Writes what is due, until cancelled."""
        while True:
            await self._woken.wait()
            await asyncio.sleep(GATHERING)
            self._woken.clear()
            for name in list(self._due):
                self._write(name, self._due.pop(name))
                await asyncio.sleep(0)

    def flush(self) -> None:
        """Writes all that is due now."""
        while self._due:
            self._write(*self._due.popitem())

    def sweep(self) -> None:
        """Removes what an earlier program has left of pods that are gone; those that are there are written anew."""
        for path in self._ours():
            path.unlink(missing_ok=True)

    def _ours(self) -> Iterator[Path]:
        for path in self._folder.glob(f"*{STATUS_SUFFIX}"):
            if path.is_file():
                with path.open("rb") as file:
                    if file.read(len(HEADER)) == HEADER.encode():
                        yield path

    def _write(self, name: str, pod: Object | None) -> None:
        path = self._folder / name
        try:
            if pod is None:
                path.unlink(missing_ok=True)
            else:
                replace_file(path, text_of(pod).encode())
        except OSError as error:
            if str(error) != self._problem:
                log.error("%s cannot be written: %s; the node goes on without it", path, error.strerror)
            self._problem = str(error)
