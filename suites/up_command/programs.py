"""`drahealth kubectl` and `drahealth logs`: kubectl and tail(1) take the place of this process."""

import os
import shutil
from collections.abc import Sequence

from rich.console import Console

from drahealth.fakes.control.node_folder import DEFAULT_NODE
from drahealth.fakes.hints import near
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kubelet.binaries.ensure import ensure_kubectl
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION
from drahealth.suites.targets.stage_printer import StagePrinter
from drahealth.suites.up_command.folder import NodeFolder
from drahealth.suites.up_command.state import ready

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


def show_log(folder: NodeFolder, component: str | None, *, follow: bool, lines: int | None) -> None:
    """Replaces this process by tail; without a component it prints their names. Raises HarnessError."""
    names = sorted(path.stem for path in folder.logs.glob("*.log"))
    if component is None:
        print("\n".join(names))  # noqa: T201
        return
    if component not in names:
        raise ConfigurationError(f"node {folder.name} has no log of {component!r}", near(component, names))
    program = shutil.which("tail")
    if program is None:
        raise HarnessError("the program tail is missing", "install coreutils")
    log = str(folder.logs / f"{component}.log")
    os.execv(program, ["tail", "-n", "+1" if lines is None else str(lines), *(["-F"] if follow else []), log])
