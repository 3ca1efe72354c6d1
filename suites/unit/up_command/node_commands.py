"""Commands for real nodes, as a user has them: each in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.suites.targets.kubelet.ensure import ensure_kubectl
from drahealth.suites.targets.versions import parse_version

PATIENCE = 300.0
"""Seconds that a command may take on a loaded machine."""
WAIT = f"--timeout={PATIENCE:g}s"
"""The option of `kubectl wait`."""
RELEASE = ["--kubernetes", os.environ["KUBERNETES"]] if os.environ.get("KUBERNETES") else []
"""The option for the release that the environment selects."""


@contextmanager
def folder_of_nodes(name: str) -> Iterator[Path]:
    """The folder of the nodes that commands start until the end. It does not exist yet; whoever uses it removes it."""
    folder = Path(f"/tmp/dh-{name}-{os.getpid()}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAHEALTH_STATE", str(folder))
        patch.delenv("DRAHEALTH_SOCKET", raising=False)
        yield folder


def drahealth(*arguments: str, code: int = 0, text: str | None = None) -> str:
    """The output of a command, which must have this exit code."""
    command = [sys.executable, "-m", "drahealth.suites", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, input=text, timeout=PATIENCE, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr


def kubectl_of(node: str, *arguments: str) -> str:
    """The output of kubectl itself, which starts faster than `drahealth kubectl`, with the kubeconfig of the node."""
    program = ensure_kubectl(parse_version(os.environ.get("KUBERNETES") or DEFAULT_VERSION))
    kubeconfig = Path(os.environ["DRAHEALTH_STATE"], node, "kubeconfig")
    command = [str(program), f"--kubeconfig={kubeconfig}", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE).stdout
