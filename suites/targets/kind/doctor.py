"""The checks of `drahealth doctor` for the kind target."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.definition import Check
from drahealth.suites.targets.engine import Engine, find_engine
from drahealth.suites.targets.kind import program
from drahealth.suites.targets.kind.program import find_kind, node_image

DISK_NEEDED = 4_000_000_000
"""Bytes for a node image, a node, and the image of the fake driver in the engine and on the node."""
_GIGABYTE = 1_000_000_000


def examine(kubernetes: str | None = None, image: str | None = None) -> Iterator[Check]:
    """All checks for a cluster of this Kubernetes release; `image` replaces the node image of kind."""
    kubernetes = kubernetes or program.DEFAULT
    with asyncio.Runner() as runner:
        checks = _examine(kubernetes, image)
        while (check := runner.run(_next(checks))) is not None:
            yield check


async def _examine(kubernetes: str, image: str | None) -> AsyncIterator[Check]:
    try:
        engine = await find_engine()
    except HarnessError as error:
        yield Check("container engine", False, error.message, error.hint)
        yield await _kind(Engine("docker"))
        return
    yield await _engine(engine)
    yield await _kind(engine)
    yield await node_image_there(engine, kubernetes, image)
    yield await disk(engine)


async def _next(checks: AsyncIterator[Check]) -> Check | None:
    return await anext(checks, None)


async def node_image_there(engine: Engine, kubernetes: str, image: str | None = None) -> Check:
    """Whether the engine has the node image. A pull is not tried: the engine may have mirrors."""
    try:
        wanted = node_image(program.with_image(kubernetes), image)
        there = await engine.image_id(wanted)
    except HarnessError as error:
        return Check("node image", False, error.message, error.hint)
    if there:
        return Check("node image", True, f"{wanted} is in the engine")
    hint = (
        "kind publishes images of some patch releases: see its release notes, and name one by --kubernetes or --image"
    )
    return Check("node image", False, f"{wanted} is not in the engine; kind will try to pull it", hint, needed=False)


async def disk(engine: Engine) -> Check:
    """The free disk space of the engine, if its data is on this machine."""
    name = "disk of the engine"
    try:
        folder = await engine.data_folder()
    except HarnessError as error:
        return Check(name, False, error.message, error.hint, needed=False)
    if not _is_local(folder):
        return Check(name, True, f"{folder or 'its data'} is not on this machine", needed=False)
    free = shutil.disk_usage(folder).free
    ok = free >= DISK_NEEDED
    hint = f"{_size(DISK_NEEDED)} are needed: free some disk space, for instance with `{engine.name} system prune`"
    return Check(name, ok, f"{_size(free)} free at {folder}", "" if ok else hint)


async def _engine(engine: Engine) -> Check:
    side = "Server" if engine.name == "docker" else "Client"
    try:
        version = (await engine.run("version", "--format", f"{{{{.{side}.Version}}}}")).strip()
    except HarnessError as error:
        return Check("container engine", False, error.message, error.hint)
    return Check("container engine", True, f"{engine.name} {version}")


async def _kind(engine: Engine) -> Check:
    try:
        return Check("kind", True, (await find_kind(engine)).version)
    except HarnessError as error:
        return Check("kind", False, error.message, error.hint)


def _is_local(folder: str) -> bool:
    remote = os.environ.get("DOCKER_HOST", "").startswith(("tcp:", "ssh:", "http:", "https:"))
    return bool(folder) and not remote and Path(folder).is_dir()


def _size(number: int) -> str:
    return f"{number / _GIGABYTE:.1f} GB"
