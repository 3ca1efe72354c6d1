"""Builds the real Go drivers of our own tests, and keeps them in the cache.

    python ci/e2e/drivers/build.py

Prints a variable with the path of each: FILEHEALTH, DRA_TEST_DRIVER, SAMPLE_DEVICE_PLUGIN. Exits 1 if one
cannot be compiled, and 3, with the reason, without Go or its module proxy.
"""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kubelet.binaries import (
    Order,
    Package,
    Store,
    Unavailable,
    dra_test_driver,
    sample_device_plugin,
)
from drahealth.suites.targets.kubelet.sources import GoBuild, GoFailed, run_go
from drahealth.suites.targets.progress import Progress

FOLDER = Path(__file__).resolve().parent / "filehealth"


class FolderBuild:
    """Builds the driver in `FOLDER`."""

    def get(self, order: Order, progress: Progress) -> str:
        """See `Source`."""
        go = shutil.which("go")
        if go is None:
            raise Unavailable("there is no Go toolchain to build it with", "install Go from https://go.dev/dl")
        environment = {**os.environ, "GOWORK": "off", "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"}
        try:
            run_go([go, "mod", "download"], FOLDER, environment, "Fetching the modules of filehealth", progress)
        except GoFailed as failure:
            raise Unavailable(f"its modules cannot be fetched: {failure}", "run once with Go's module proxy") from None
        command = [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(order.into / "filehealth"), "."]
        try:
            run_go(command, FOLDER, environment, "Compiling filehealth", progress)
        except GoFailed as failure:
            raise HarnessError(f"cannot build {order.package}: {failure}", "see the output of Go") from None
        return f"built from {FOLDER.name}"


def filehealth() -> Package:
    """The driver of `FOLDER`; its version is that of its source."""
    sources = sorted({*FOLDER.glob("*.go"), *FOLDER.glob("go.*")} - {*FOLDER.glob("*_test.go")})
    digest = hashlib.sha256(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in sources))
    return Package("filehealth", "the driver filehealth", digest.hexdigest()[:12], ("filehealth",))


def progress(stage: str, done: int | None = None, total: int | None = None) -> None:
    """Shows the stage in place, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{stage}")


def main() -> int:
    store = Store()
    try:
        for package, source in (
            (dra_test_driver(), GoBuild()),
            (sample_device_plugin(), GoBuild()),
            (filehealth(), FolderBuild()),
        ):
            (program,) = package.programs
            path = store.ensure(package, source, progress) / program
            sys.stdout.write(f"{program.upper().replace('-', '_')}={path}\n")
    except Unavailable as lack:
        sys.stderr.write(f"cannot build the drivers: {lack.reason}; {lack.hint}\n")
        return 3
    except HarnessError as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
