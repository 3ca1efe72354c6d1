"""`drahealth kubectl`: the kubectl of the node's release, with the node's kubeconfig."""

import os
from collections.abc import Sequence

from rich.console import Console

from drahealth.fakes.control.node_folder import DEFAULT_NODE
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.kubelet.binaries.ensure import ensure_kubectl
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION
from drahealth.suites.targets.stage_printer import StagePrinter
from drahealth.suites.up_command.running import ready

_NAME = "--name"


def run_kubectl(arguments: Sequence[str]) -> None:
    """Replaces this process by kubectl. Raises HarnessError."""
    name, rest = node_and_rest(arguments)
    folder, state = ready(name)
    program = ensure_kubectl(state.kubernetes or DEFAULT_VERSION, StagePrinter(Console(stderr=True, highlight=False)))
    os.execve(program, ["kubectl", *rest], {**os.environ, "KUBECONFIG": str(folder.kubeconfig)})


def node_and_rest(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The name of the node, and the arguments of kubectl. Only a `--name` before these is ours.

    Raises ConfigurationError if the name is missing.
    """
    match list(arguments):
        case [first, *rest] if first.startswith(f"{_NAME}="):
            return first.partition("=")[2], rest
        case ["--name", name, *rest]:
            return name, rest
        case ["--name"]:
            raise ConfigurationError("--name needs the name of a node", "for example --name drahealth")
    return DEFAULT_NODE, list(arguments)
