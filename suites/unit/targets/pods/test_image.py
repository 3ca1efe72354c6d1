"""The fake driver's image. The engine is a script that keeps images as files, and pip's index a folder."""

import asyncio
import os
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from drahealth.fakes.cluster.api import NODES
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine import Engine
from drahealth.suites.targets.pods.driver_image import (
    DEFAULT_BASE,
    REPOSITORY,
    Interpreter,
    ensure_image,
    ensure_wheels,
    has_image,
    main,
    refusal,
    requirements,
)
from drahealth.suites.targets.progress import silent

_DOCKER = """#!/bin/sh
echo "$*" >> {root}/calls
for last; do :; done
name=$(echo "$last" | tr / _)
case "$1" in
  image) [ -e "{root}/images/$name" ] || {{ echo "Error: No such image: $last" >&2; exit 1; }}
         echo 1000000 ;;
  pull)  [ -e "{root}/registry/$name" ] || {{ echo "pull access denied for $last" >&2; exit 1; }}
         touch "{root}/images/$name" ;;
  run)   echo '{python}' ;;
  build) [ -e {root}/full ] && {{ echo "write: no space left on device" >&2; exit 1; }}
         cp -r "$last" {root}/built; touch "{root}/images/$(echo "$7" | tr / _)" ;;
esac
"""
_PYTHON = '["3.11.9", "x86_64", "glibc"]'
_NEEDED = {re.split("[<>=]", one)[0]: "6.99" if "<" in one else "99" for one in (*requirements(), "pip")}


def wheel(folder: Path, name: str, version: str, *modules: str) -> None:
    """A package with one module, or with these."""
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        info = f"{name}-{version}.dist-info"
        for module in modules or (f"{name}.py",):
            archive.writestr(module, "")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


class World:
    """The images of the engine, and the commands that it got."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("images", "registry", "index"):
            (root / folder).mkdir()
        for name, version in _NEEDED.items():
            wheel(root / "index", re.sub("[-.]", "_", name), version)
        self.python(_PYTHON)

    def python(self, said: str) -> None:
        (self.root / "docker").write_text(_DOCKER.format(root=self.root, python=said))
        (self.root / "docker").chmod(0o755)

    def has(self, image: str, where: str = "images") -> None:
        (self.root / where / image.replace("/", "_")).touch()

    def calls(self, verb: str) -> list[str]:
        return [line for line in (self.root / "calls").read_text().splitlines() if line.startswith(verb)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of all tests: it keeps the packages, so that only one test waits for pip."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> World:
    (tmp_path / "cache").symlink_to(cache)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DRAHEALTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return World(tmp_path)


@pytest.fixture
def ensure(world: World) -> Callable[..., "asyncio.Future[str]"]:
    def ensure(named: str | None = None, base: str | None = None) -> "asyncio.Future[str]":
        return asyncio.ensure_future(ensure_image(Engine("docker"), named=named, base=base, progress=silent))

    return ensure


async def test_an_image_is_built_from_base_packages_and_our_sources(
    world: World, ensure: Callable[..., "asyncio.Future[str]"]
) -> None:
    world.has(DEFAULT_BASE)
    name = await ensure()
    built = world.root / "built"
    assert name.startswith(f"{REPOSITORY}:")
    assert f"BASE={DEFAULT_BASE}" in world.calls("build")[0]
    assert f"-f {world.root}/cache/images/context/fakes/image/Dockerfile" in world.calls("build")[0]
    assert {path.name.split("-")[0] for path in (built / "fakes/image/wheels").iterdir()} >= {"pydantic", "pip"}
    assert (built / "fakes/serve/session_process.py").exists()
    assert os.access(built / "fakes/image/install", os.X_OK)
    assert {path.name for path in built.iterdir()} == {"proto", "fakes"}
    assert list(built.rglob("*.pyc")) == []


async def test_an_image_that_the_engine_has_is_not_built_again(
    world: World, ensure: Callable[..., "asyncio.Future[str]"]
) -> None:
    world.has(DEFAULT_BASE)
    names = [await ensure(), await ensure()]
    assert names[0] == names[1]
    assert len(world.calls("build")) == 1
    assert not (world.root / "cache/images/context").exists()


def test_the_program_builds_the_image_and_gives_it_a_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.has("mine:1")
    monkeypatch.setattr(sys, "argv", ["image", "fake:demo", "mine:1"])
    main()
    (built,) = (line.split()[6] for line in world.calls("build"))
    assert world.calls("tag") == [f"tag {built} fake:demo"]


async def test_two_runs_at_once_build_one_image(world: World, ensure: Callable[..., "asyncio.Future[str]"]) -> None:
    world.has(DEFAULT_BASE)
    names = await asyncio.gather(ensure(), ensure())
    assert names[0] == names[1]
    assert len(world.calls("build")) == 1


async def test_another_base_makes_another_image(world: World, ensure: Callable[..., "asyncio.Future[str]"]) -> None:
    world.has("mine:1", "registry")
    world.has(DEFAULT_BASE)
    assert await ensure(base="mine:1") != await ensure()
    assert world.calls("pull") == ["pull mine:1"]


async def test_a_named_image_is_used_unchanged(world: World, ensure: Callable[..., "asyncio.Future[str]"]) -> None:
    world.has("theirs:1", "registry")
    assert await ensure(named="theirs:1") == "theirs:1"
    assert world.calls("build") == []


@pytest.mark.parametrize(
    ("given", "option"), [({"named": "theirs:2"}, "--driver-image"), ({"base": "mine:2"}, "--driver-base")]
)
async def test_a_failed_pull_names_the_image_and_the_option(
    ensure: Callable[..., "asyncio.Future[str]"], given: dict[str, str], option: str
) -> None:
    with pytest.raises(HarnessError, match=f":2.*cannot pull.*{option}"):
        await ensure(**given)


@pytest.mark.parametrize("said", ['["3.10.1", "x86_64", "glibc"]', '["3.12.1", "x86_64", ""]', "no python"])
async def test_a_base_without_a_suitable_python_is_rejected(
    world: World, ensure: Callable[..., "asyncio.Future[str]"], said: str
) -> None:
    world.has("mine:1")
    world.python(said)
    with pytest.raises(HarnessError, match=r"mine:1"):
        await ensure(base="mine:1")


async def test_a_full_disk_of_the_engine_is_an_error(
    world: World, ensure: Callable[..., "asyncio.Future[str]"]
) -> None:
    world.has(DEFAULT_BASE)
    (world.root / "full").touch()
    with pytest.raises(HarnessError, match=r"The fake driver's image cannot be built: .*no disk space is left"):
        await ensure()


async def test_a_failed_fetch_of_packages_leaves_nothing(world: World) -> None:
    cache = world.root / "own"
    cache.mkdir()
    with pytest.raises(HarnessError, match=r"pip cannot get the packages .*No matching distribution found for nowhere"):
        await ensure_wheels(cache, Interpreter("3.11", "x86_64"), ["nowhere"], silent)
    assert list(cache.iterdir()) == []


async def test_packages_are_kept_by_python_and_architecture(world: World) -> None:
    cache = world.root / "own"
    cache.mkdir()
    machines = [Interpreter("3.11", "x86_64"), Interpreter("3.11", "aarch64"), Interpreter("3.11", "x86_64")]
    folders = [await ensure_wheels(cache, machine, ["pydantic"], silent) for machine in machines]
    assert folders[0] == folders[2] != folders[1]


def test_a_python_without_pip_is_an_error_with_a_hint() -> None:
    assert "has no pip; get it with" in str(refusal("/usr/bin/python: No module named pip"))


async def test_an_image_exists_if_every_node_reports_it() -> None:
    api = ApiServer()
    for name, images in (("one", ["mine:1", "other:1"]), ("two", ["mine:1"]), ("new", None)):
        await api.create(NODES, {"metadata": {"name": name}})
        status = {"images": [{"names": [image]} for image in images]} if images else {}
        await api.replace_status(NODES, {**await api.get(NODES, name), "status": status})
    asked = [(("one", "two"), "mine:1"), (("one", "two"), "other:1"), (("one", "new"), "mine:1"), (("one",), "mine")]
    assert [await has_image(api, nodes, image) for nodes, image in asked] == [True, False, False, False]
