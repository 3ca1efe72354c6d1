"""Nodes by name: those with data, and those that run."""

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.up_command.folder import NodeFolder, folders
from drahealth.suites.up_command.state import NodeState, read_state


def existing(name: str) -> NodeFolder:
    """The folder of a node with data. Raises ConfigurationError if there is none."""
    folder = NodeFolder(name)
    if not folder.exists():
        names = ", ".join(each.name for each in folders()) or "none"
        start = "`drahealth up`" if not names or name == "drahealth" else f"`drahealth up --name {name}`"
        raise ConfigurationError(f"there is no node {name} (nodes: {names})", f"start it with {start}")
    return folder


def ready(name: str) -> tuple[NodeFolder, NodeState]:
    """The folder and the state of a Ready node. Raises ConfigurationError if there is none, HarnessError if it does not
    run."""
    folder = existing(name)
    state = read_state(folder.path)
    if state is None or state.phase != "ready" or state.process is None or not state.process.runs():
        raise HarnessError(f"node {name} is not up", f"start it with `drahealth up --name {name}`")
    return folder, state
