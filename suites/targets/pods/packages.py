"""The packages in the image of the fake driver. pip fetches them for the Python and the architecture of the image.

They are fetched once, into a folder of the cache that is complete or missing.
"""

import hashlib
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.engine import processes
from drahealth.suites.targets.progress import Progress

NEEDED = ("aiohttp", "filelock", "grpcio", "kubernetes", "protobuf", "pydantic", "watchfiles")
"""The imports of the fake driver."""
UNUSED = tuple(f"kubernetes/{client}/{part}" for client in ("client", "aio/client") for part in ("api", "models"))
"""Folders of the Kubernetes client whose modules the fake driver never imports: 72 MB. Their `__init__.py` stays."""

_FETCHING = "Fetching packages for the image of the fake driver"
_LIMIT = 600.0
_GLIBC = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
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


def requirements(declared: Iterable[str] | None = None) -> list[str]:
    """The needed packages, with the versions that this project requires."""
    if declared is None:
        declared = metadata.requires("drahealth") or ()
    plain = [one for one in declared if ";" not in one]
    named = {match[0].lower(): one for one in plain if (match := _NAME.match(one))}
    return [named.get(name, name).replace(" ", "") for name in NEEDED]


def digest(parts: Iterable[str]) -> str:
    """A short hash of texts in their order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


async def ensure_packages(cache: Path, interpreter: Interpreter, needed: Sequence[str], progress: Progress) -> Path:
    """The folder with the packages, from the cache or fetched. The caller holds the lock of the cache.

    Raises HarnessError if pip is missing or fails, OSError if the cache cannot be written.
    """
    folder = cache / digest([interpreter.version, interpreter.machine, *needed, *UNUSED])
    if not folder.is_dir():
        draft = folder.with_suffix(".part")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            await _fetch(draft, interpreter, needed, progress)
            for module in (module for part in UNUSED for module in (draft / part).glob("*.py")):
                if module.name != "__init__.py":
                    module.unlink()
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


async def _fetch(into: Path, interpreter: Interpreter, needed: Sequence[str], progress: Progress) -> None:
    progress(_FETCHING)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--no-compile"]
    how = ["--only-binary=:all:", "--implementation=cp", f"--python-version={interpreter.version}", *interpreter.tags]
    try:
        done = await processes.run(
            [*pip, *how, "--target", str(into), *needed], limit=_LIMIT, on_line=lambda line: progress(_FETCHING)
        )
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
