"""The folders of the nodes that `drahealth up` starts. It imports almost nothing: `drahealth ctl` starts fast."""

import os
from pathlib import Path

VARIABLE = "DRAHEALTH_STATE"
"""The environment variable with another folder for the nodes."""
DEFAULT_NODE = "drahealth"
"""The default name of a node."""
CONTROL_SOCKET = "control.sock"
"""The control socket of the node's drivers, in the folder of the node."""


def nodes_folder() -> Path:
    """The folder with a folder for each node: that of the environment, or one in the user's state folder (XDG)."""
    if named := os.environ.get(VARIABLE):
        return Path(named).absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state").absolute() / "drahealth"


def control_socket_of(node: str) -> Path:
    """The control socket of the drivers of a node."""
    return nodes_folder() / node / CONTROL_SOCKET


def nodes_with_fakes() -> list[str]:
    """The names of the nodes of this user whose fakes can be controlled."""
    return sorted(path.parent.name for path in nodes_folder().glob(f"[!.]*/{CONTROL_SOCKET}"))
