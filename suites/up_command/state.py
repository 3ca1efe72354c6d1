"""The state file of a node: what it was started with, its process, and how far it is.

Commands read it in other processes, also those of another release of drahealth. So it has a format with a number.
"""

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from drahealth.fakes.program.atomic import replace_file
from drahealth.proto.quoting import one_line
from drahealth.proto.version import __version__
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.up_command.folder import NodeFolder, existing
from drahealth.suites.up_command.process_identity import ProcessIdentity

FORMAT = 1
"""The number of this format. A newer one is never read."""
_NAME = "state.json"

Phase = Literal["starting", "ready", "stopped", "failed"]
"""`starting` and `ready` are true only while the process of the state runs."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a node; `kubernetes` is "" for the reference, `problem` says why it failed."""

    kubernetes: str
    gates: dict[str, bool] = field(default_factory=dict)
    phase: Phase = "starting"
    problem: str = ""
    server: str = ""
    """URL of the API server."""
    process: ProcessIdentity | None = None
    """The supervisor, which owns all other processes."""
    drivers: list[list[str]] = field(default_factory=list)
    """The name of each driver, with its first device."""
    format: int = FORMAT
    drahealth: str = __version__

    @property
    def reference(self) -> bool:
        """Whether the node is the reference, without a kubelet."""
        return not self.kubernetes

    @property
    def title(self) -> str:
        """What runs, for people."""
        return "the reference" if self.reference else f"Kubernetes {self.kubernetes}"

    def at(self, phase: Phase, **changes: Any) -> "NodeState":
        """The state in another phase."""
        return replace(self, phase=phase, **changes)


def write_state(folder: Path, state: NodeState) -> None:
    """Replaces the state file. Raises OSError."""
    replace_file(folder / _NAME, json.dumps(asdict(state), indent=1).encode() + b"\n")


def read_state(folder: Path) -> NodeState | None:
    """The state of the node; None before its first start. Raises ConfigurationError for a file that is not ours."""
    path = folder / _NAME
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {one_line(str(error))}", _remove(folder)) from None
    number = data.get("format") if isinstance(data, dict) else None
    if isinstance(number, int) and number > FORMAT:
        raise ConfigurationError(
            f"{folder} was made by a newer drahealth ({one_line(str(data.get('drahealth')))})",
            f"install that release, or {_remove(folder)}",
        )
    try:
        process = data.get("process")
        known = {each.name: data[each.name] for each in fields(NodeState) if each.name in data}
        return NodeState(**known | {"process": ProcessIdentity(**process) if process else None})
    except (AttributeError, TypeError) as error:
        raise ConfigurationError(f"{path} is damaged: {one_line(str(error))}", _remove(folder)) from None


def _remove(folder: Path) -> str:
    return f"remove the node with `drahealth down --name {folder.name}`"


def has_state(folder: Path) -> bool:
    """Whether there is a state file, readable or not."""
    return (folder / _NAME).exists()


def is_ready(state: NodeState | None) -> bool:
    """Whether the node runs, and is Ready."""
    return state is not None and state.phase == "ready" and state.process is not None and state.process.runs()


def ready(name: str) -> tuple[NodeFolder, NodeState]:
    """The folder and the state of a Ready node. Raises ConfigurationError if there is none, HarnessError if it does not
    run."""
    folder = existing(name)
    state = read_state(folder.path)
    if state is None or not is_ready(state):
        raise HarnessError(f"node {name} is not up", f"start it with `drahealth up --name {name}`")
    return folder, state
