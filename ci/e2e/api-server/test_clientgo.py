"""A program with client-go: informers, eviction, apply. It sees the same on the reference and on a real node."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.cluster.api import NAMESPACES
from drahealth.fakes.cluster.kube_client import KubeClient

FOLDER = Path(__file__).with_name("clientgo")
SEEN = ["added last", "updated last", "deleted last"]
FACTS: dict[str, Any] = {
    "apply": {"condition": True, "extracted": {"a": "1", "b": "1"}, "image": "training", "second": {"a": "2"}},
    "claims": ["Healthy", "gpu.example.com", True],
    "collection": ["b"],
    "conflict": {
        "causes": ["FieldManagerConflict .data.a"],
        "data": {"a": "2"},
        "managers": ["two"],
        "reason": "Conflict",
    },
    "controller": {"example.com/seen": "true"},
    "discovery": [True, [], "1"],
    "dynamic": {"after": "NotFound", "data": {"a": "1"}, "events": SEEN},
    "eviction": [True, "TooManyRequests", True, "NotFound"],
    "informer": ["added first", "added other", "added last", "updated last", "deleted other", "deleted last"],
    "leader": ["one", "two", 1],
    "metadata": ["", "metadata", "", "metadata"],
    "pages": {"names": [f"page-{number}" for number in range(5)], "sizes": [2, 2, 1]},
    "patches": [{"a": "2"}, {"b": "1"}, {"b": "1", "c": "1"}],
    "protobuf": [True, {"a": "1"}],
    "resync": True,
    "retry": {"attempts": ["Conflict", ""], "data": {"a": "2", "b": "1"}},
    "selected": SEEN,
    "timeout": True,
}
"""What the program sees."""


@pytest.fixture(scope="session")
def clientgo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, which Go compiles in some minutes the first time."""
    if (go := shutil.which("go")) is None:
        pytest.skip("there is no Go toolchain to build it with")
    output = tmp_path_factory.mktemp("clientgo") / "clientgo"
    environment = {**os.environ, "GOWORK": "off", "GOFLAGS": "-trimpath -buildvcs=false", "CGO_ENABLED": "0"}
    command = [go, "build", "-o", str(output), "."]  # with the versions and flags of ci/e2e/drivers, it compiles little
    done = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


def test_the_program_is_formatted() -> None:
    if (gofmt := shutil.which("gofmt")) is None:
        pytest.skip("there is no Go toolchain")
    assert subprocess.run([gofmt, "-l", FOLDER], capture_output=True, text=True, check=True).stdout == ""


@pytest.mark.parametrize("server", ["reference", "real"])
async def test_the_program_sees_the_same_on_both(server: str, clientgo: Path, request: pytest.FixtureRequest) -> None:
    kubeconfig = request.getfixturevalue(server)
    await create_namespace(kubeconfig)
    command, pipe = [str(clientgo), str(kubeconfig), "clientgo", "drahealth"], asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    output, errors = await program.communicate()
    assert program.returncode == 0, errors.decode()
    assert json.loads(output) == FACTS


async def create_namespace(kubeconfig: Path) -> None:
    client = await KubeClient.from_kubeconfig(kubeconfig)
    await client.create(NAMESPACES, {"metadata": {"name": "clientgo"}})
    await client.close()
