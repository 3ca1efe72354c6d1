"""The image of the fake driver: fakes/image/Dockerfile, and the wheels that it installs."""

import asyncio
import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import filelock

from drahealth import fakes, proto
from drahealth.fakes.cluster.api import NODES, Api
from drahealth.fakes.waiting import poll
from drahealth.suites.errors import HarnessError
from drahealth.suites.processes.child import run
from drahealth.suites.targets.engine import Engine, find_engine
from drahealth.suites.targets.progress import Progress, silent
from drahealth.suites.targets.run_directory import default_root

# The packages in the image. pip fetches their wheels for the Python and the architecture of the image, so that the
# build needs no network. They are fetched once, into a folder of the cache that is complete or missing.

_FETCHING = "Fetching packages for the image of the fake driver"
_LIMIT = 600.0
_GLIBC = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
_WITHOUT = "or pass an image with the fake driver as --driver-image"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python of a base image: its version (3.11) and its machine (x86_64, aarch64)."""

    version: str
    machine: str

    @property
    def tags(self) -> list[str]:
        """The platforms for pip: a system with glibc."""
        return [f"--platform={family}_{self.machine}" for family in _GLIBC]


def digest(parts: Iterable[str]) -> str:
    """A short hash of texts in their order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


async def ensure_wheels(cache: Path, interpreter: Interpreter, needed: Sequence[str], progress: Progress) -> Path:
    """The folder with the wheels of these packages and of pip, from the cache or fetched. The caller holds its lock.

    Raises HarnessError if pip is missing or fails, OSError if the cache cannot be written.
    """
    folder = cache / digest([interpreter.version, interpreter.machine, *needed])
    if not folder.is_dir():
        draft = folder.with_suffix(".part")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            await _fetch(draft, interpreter, needed, progress)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


async def _fetch(into: Path, interpreter: Interpreter, needed: Sequence[str], progress: Progress) -> None:
    progress(_FETCHING)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--dest", str(into)]
    how = ["--only-binary=:all:", "--implementation=cp", f"--python-version={interpreter.version}", *interpreter.tags]
    try:
        done = await run([*pip, *how, *needed, "pip"], limit=_LIMIT, on_line=lambda line: progress(_FETCHING))
    except TimeoutError:
        raise HarnessError(f"{_FETCHING} took more than {_LIMIT:g} s", f"check the network, {_WITHOUT}") from None
    if done.code:
        raise refusal(done.stderr)


def refusal(output: str) -> HarnessError:
    """The error of a failed pip: `said` is its standard error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    message = next(
        (line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "it printed nothing"
    )
    if "No module named pip" in output:
        return HarnessError(
            f"cannot build the image of the fake driver: {sys.executable} has no pip",
            f"get it with `{sys.executable} -m ensurepip`, {_WITHOUT}",
        )
    hint = "free some disk space" if "No space left" in output else "check that pip can reach its package index"
    return HarnessError(
        f"pip cannot get the packages of the image of the fake driver: {message}", f"{hint}, {_WITHOUT}"
    )


# The image, from fakes/image/Dockerfile. Its build context is like a checkout, with the wheels beside the Dockerfile.
# The tag of the image is a hash of its content. An image that the engine has is not built again.

DEFAULT_BASE = "python:3.11-slim"
"""Any image with Python 3.11 or newer and glibc works."""
REPOSITORY = "localhost/drahealth-driver"
"""With a host, so that it has the same name in Docker, Podman and containerd."""

_PARTS = {part.__name__.rpartition(".")[2]: Path(part.__path__[0]) for part in (proto, fakes)}
_LEFT_OUT = (".pyc", ".pyi", ".proto", ".whl")
_ASK = "import json, platform as p; print(json.dumps([p.python_version(), p.machine(), p.libc_ver()[0]]))"
_OLDEST = (3, 11)


async def ensure_image(engine: Engine, *, named: str | None, base: str | None, progress: Progress) -> str:
    """The name of an image with the fake driver in the engine: the named one, or ours, built if needed.

    Raises HarnessError if it cannot be pulled or built.
    """
    if named:
        await _ensure_there(engine, named, progress, "The fake driver's image", "--driver-image")
        return named
    base = base or DEFAULT_BASE
    contents = (text for name, path in _ours() for text in (name, path.read_text(encoding="utf-8")))
    tag = f"{REPOSITORY}:{metadata.version('drahealth')}-{digest([base, *contents])}".replace("+", ".")
    if await engine.image_id(tag) is None:
        await _build(engine, tag, base, progress)
    return tag


def requirements() -> list[str]:
    """The packages in the image, with their versions."""
    return (_PARTS["fakes"] / "image/requirements.txt").read_text("utf-8").split()


async def has_image(api: Api, nodes: Iterable[str], image: str) -> bool:
    """Whether all these nodes report an image of that name. Raises ApiError."""
    for name in nodes:
        images = (await api.get(NODES, name)).get("status", {}).get("images") or ()
        if not any(image in (found.get("names") or ()) for found in images):
            return False
    return True


async def _build(engine: Engine, tag: str, base: str, progress: Progress) -> None:
    began, cache = time.monotonic(), default_root() / "images"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        async with _locked(cache, progress):
            if await engine.image_id(tag) is not None:
                return
            await _ensure_there(engine, base, progress, "The base of the fake driver's image", "--driver-base")
            wheels = await ensure_wheels(cache, await _interpreter(engine, base), requirements(), progress)
            with _context(cache / "context", wheels) as context:
                await _run_build(engine, tag, base, context, progress)
    except OSError as error:
        hint = "free some disk space" if error.errno == errno.ENOSPC else "correct its permissions"
        raise HarnessError(
            f"cannot write the cache {cache}: {error}", f"{hint}, or set DRAHEALTH_CACHE to another folder"
        ) from error
    size = int(await engine.run("image", "inspect", "--format", "{{.Size}}", tag))
    progress(f"Built {tag}, {size / 1e6:.0f} MB on {base}, in {time.monotonic() - began:.1f} s")


async def _run_build(engine: Engine, tag: str, base: str, context: Path, progress: Progress) -> None:
    doing = f"Building the fake driver's image on {base}"
    progress(doing)
    command = ("build", "--build-arg", f"BASE={base}", "-f", str(context / "fakes/image/Dockerfile"), "-t", tag)
    try:
        await engine.run(*command, str(context), limit=_LIMIT, on_line=lambda line: progress(doing))
    except HarnessError as error:
        raise _about("The fake driver's image cannot be built", error) from error


async def _ensure_there(engine: Engine, image: str, progress: Progress, what: str, option: str) -> None:
    if await engine.image_id(image) is not None:
        return
    doing = f"Pulling {image}"
    progress(doing)
    try:
        await engine.run("pull", image, limit=_LIMIT, on_line=lambda line: progress(doing))
    except HarnessError as error:
        failure = _about(f"cannot get {what}, {image}", error)
        failure.hint = f"check the name, pull it first, or pass another as {option}"
        raise failure from error


async def _interpreter(engine: Engine, base: str) -> Interpreter:
    """The Python of the base, as it reports itself."""
    try:
        output = await engine.run("run", "--rm", "--network=none", "--entrypoint=python", base, "-c", _ASK)
        version, machine, libc = json.loads(output)
    except (HarnessError, ValueError) as error:
        output = error.message if isinstance(error, HarnessError) else str(error)
        raise HarnessError(
            f"the base {base} cannot run Python: {output}", "pass an image with `python` as --driver-base"
        ) from error
    parts = tuple(int(part) for part in version.split(".")[:2])
    if parts < _OLDEST or libc != "glibc":
        raise HarnessError(
            f"--driver-base must have Python 3.11 or newer and glibc, and {base} has {version} on {libc or 'no glibc'}",
            "for example python:3.11-slim",
        )
    return Interpreter(".".join(map(str, parts)), machine)


def _about(what: str, error: HarnessError) -> HarnessError:
    """The error of the engine with this message before it."""
    failure = HarnessError(f"{what}: {error.message}", error.hint)
    for note in getattr(error, "__notes__", ()):
        failure.add_note(note)
    return failure


@contextlib.contextmanager
def _context(folder: Path, wheels: Path) -> Iterator[Path]:
    """The build context: copies of our own files, and hard links to the wheels."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        for name, path in _ours():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / name)
        shutil.copytree(wheels, folder / "fakes/image/wheels", copy_function=os.link)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ours() -> Iterator[tuple[str, Path]]:
    """Our files, by their names in the context."""
    for part, source in _PARTS.items():
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source)
            if path.is_file() and path.suffix not in _LEFT_OUT and name.parts[0] != "chart":
                yield f"{part}/{name}", path


@contextlib.asynccontextmanager
async def _locked(cache: Path, progress: Progress) -> AsyncIterator[None]:
    """Holds the lock of the cache; it ends with its process."""
    lock, began = filelock.FileLock(cache / "lock"), time.monotonic()

    async def is_locked() -> bool:
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            progress(f"Waiting for another process that builds an image ({time.monotonic() - began:.0f} s)")
            return False
        return True

    await poll(is_locked, 0.2)
    try:
        yield
    finally:
        lock.release()


def main() -> None:
    """Builds the image: `python -m drahealth.suites.targets.pods.driver_image NAME [BASE]`."""
    name, *base = sys.argv[1:]

    async def tag() -> None:
        engine = await find_engine()
        image = await ensure_image(engine, named=None, base=base[0] if base else None, progress=silent)
        await engine.run("tag", image, name)

    try:
        asyncio.run(tag())
    except HarnessError as error:
        sys.exit(f"{error.message}; {error.hint}")


if __name__ == "__main__":
    main()
