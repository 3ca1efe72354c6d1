"""Helpers of a driver: they start before the driver, report failures by name, and end with the run."""

import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drahealth.manager.calls import first_error
from drahealth.proto.clock import SystemClock
from drahealth.proto.package import silence_grpc
from drahealth.suites.driver_checks.profile.model import Helper
from drahealth.suites.driver_checks.subject.helper_process import HelperProcess, Helpers
from drahealth.suites.driver_checks.subject.places import Places, private_places, sandboxed
from drahealth.suites.driver_checks.subject.sandbox import Sandbox
from drahealth.suites.errors import HarnessError
from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import COMMAND

SLEEPS = "import time; time.sleep(600)"
LISTENS = f"import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); {SLEEPS}"
"""A program that serves a socket."""
SOCKET = "{driver_dir}/daemon.sock"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    places = Places(tmp_path, tmp_path / "reg", tmp_path / "plugins", tmp_path / "cdi", None, "node-a")
    places.make()
    return places


def python(code: str, *arguments: str, **more: Any) -> Helper:
    return Helper.model_construct(command=(sys.executable, "-c", code, *arguments), **more)


@pytest.fixture
async def started(places: Places) -> AsyncIterator[list[HelperProcess]]:
    """Helpers that are closed at the end."""
    found: list[HelperProcess] = []
    yield found
    for process in found:
        await process.close()


@pytest.mark.parametrize(
    "helper",
    [
        python(LISTENS, SOCKET, ready=SOCKET),
        python(f"import sys; open(sys.argv[1], 'w'); {SLEEPS}", SOCKET, ready=SOCKET),
        python(LISTENS, SOCKET, ready_command=("test", "-S", SOCKET)),
        python(
            "import os, time; open(os.environ['AT'], 'w'); time.sleep(600)", environment={"AT": SOCKET}, ready=SOCKET
        ),
    ],
)
async def test_helper_start_waits_until_its_socket_exists(
    places: Places, started: list[HelperProcess], helper: Helper
) -> None:
    started.append(HelperProcess(helper, places, SystemClock()))
    await started[0].start()
    assert (places.driver_dir / "daemon.sock").exists()


async def test_helper_does_not_inherit_grpc_verbosity(
    monkeypatch: pytest.MonkeyPatch, places: Places, started: list[HelperProcess]
) -> None:
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    silence_grpc()
    writes = f"import os, sys; open(sys.argv[1] + str('GRPC_VERBOSITY' in os.environ), 'w'); {SLEEPS}"
    started.append(HelperProcess(python(writes, SOCKET, ready=f"{SOCKET}False"), places, SystemClock()))
    await started[0].start()


@pytest.mark.parametrize(
    ("helper", "words"),
    [
        (
            python("print('no GPU'); raise SystemExit(3)", ready=SOCKET),
            "with code 3; .*: no GPU",
        ),
        (python("import os; os.kill(os.getpid(), 9)", ready=SOCKET), "exited by SIGKILL"),
        (python(SLEEPS, ready=SOCKET, limit=0.3), "not ready after 0.3 s: .*/daemon.sock"),
        (python(SLEEPS, ready_command=("false",), limit=0.3), "not ready after 0.3 s: false"),
        (python(SLEEPS, ready_command=("sleep", "600"), limit=0.3), "not ready"),
    ],
)
async def test_helper_that_fails_is_named(
    places: Places, started: list[HelperProcess], helper: Helper, words: str
) -> None:
    started.append(HelperProcess(helper, places, SystemClock()))
    with pytest.raises(HarnessError, match=words):
        await started[0].start()


async def test_exit_of_a_helper_is_a_harness_error(places: Places, started: list[HelperProcess]) -> None:
    first, second = python(SLEEPS), python("input()")
    started += [HelperProcess(one, places, SystemClock()) for one in (first, second)]
    helpers = Helpers(started)
    await helpers.start()
    with pytest.raises(ExceptionGroup) as caught:
        await helpers.run()
    assert isinstance(first_error(caught.value), HarnessError)


async def test_helper_of_a_moved_driver_uses_the_directories_of_the_other_kubelet(
    places: Places, started: list[HelperProcess], tmp_path: Path
) -> None:
    other = replace(places, plugins_dir=tmp_path / "other")
    other.make()
    started.append(HelperProcess(python(LISTENS, SOCKET, ready=SOCKET), places, SystemClock()))
    helpers = Helpers(started)
    helpers.move(other)
    await helpers.start()
    assert (other.driver_dir / "daemon.sock").exists()


@pytest.mark.usefixtures("user_namespaces")
async def test_helper_and_driver_are_in_the_same_sandbox(tmp_path: Path, started: list[HelperProcess]) -> None:
    declared = Sandbox(private=("/run/vendor",))
    places = private_places(declared, tmp_path, None, "", "")
    async with sandboxed(declared, tmp_path) as running:
        helper = python(LISTENS, "/run/vendor/daemon.sock", ready="/run/vendor/daemon.sock")
        started.append(HelperProcess(helper, places, SystemClock(), entry=running.entry))
        await started[0].start()
        assert (tmp_path / "private/run/vendor/daemon.sock").is_socket()


def test_certification_with_a_helper_that_fails_is_a_harness_error(tmp_path: Path) -> None:
    profile = tmp_path / "gpu.toml"
    profile.write_text(
        'format = "driver-profile/v1"\n[driver]\ncommand = ["touch", "driver-started"]\n'
        '[[helper]]\ncommand = ["sh", "-c", "echo no GPU; exit 3"]\nready = "{driver_dir}/x"\n'
    )
    done = command_process.run(COMMAND, "certify", str(profile))
    assert (done.returncode, "helper sh" in done.stderr, "no GPU" in done.stderr) == (3, True, True)
    assert list(tmp_path.iterdir()) == [profile]
