"""The path of the control socket, its owner, and the folders of nodes. It imports almost nothing."""

import errno
import os
import socket
from pathlib import Path

from drahealth.proto.quoting import one_line
from drahealth.proto.sockets import SocketInUse, check_path, is_served

# The folders of the nodes that `drahealth up` starts. It imports almost nothing: `drahealth ctl` starts fast.

STATE_VARIABLE = "DRAHEALTH_STATE"
"""The environment variable with another folder for the nodes."""
DEFAULT_NODE = "drahealth"
"""The default name of a node."""
CONTROL_SOCKET = "control.sock"
"""The control socket of the node's drivers, in the folder of the node."""
FLEET_SOCKET = "fleet.sock"
"""The control socket of a fleet, in the folder of the first node of its control plane."""


def nodes_folder() -> Path:
    """The folder with a folder for each node: that of the environment, or one in the user's state folder (XDG)."""
    if named := os.environ.get(STATE_VARIABLE):
        return Path(named).absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state").absolute() / "drahealth"


def control_socket_of(node: str) -> Path:
    """The control socket of the drivers of a node."""
    return nodes_folder() / node / CONTROL_SOCKET


def fleet_socket_of(node: str) -> Path:
    """The control socket of the fleet of a node."""
    return nodes_folder() / node / FLEET_SOCKET


def nodes_with_fakes() -> list[str]:
    """The names of the nodes of this user whose fakes can be controlled."""
    return sorted(path.parent.name for path in nodes_folder().glob(f"[!.]*/{CONTROL_SOCKET}"))


# The path of the control socket, and its owner.

VARIABLE = "DRAHEALTH_SOCKET"


def default_path() -> Path:
    """That of the environment, or one in a folder of this user."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/run/drahealth/control.sock")
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return Path(folder, "drahealth") / "control.sock" if folder else Path(f"/tmp/drahealth-{os.geteuid()}/control.sock")


def used_path() -> Path:
    """The default path of clients: that of the default node of `drahealth up`, if no process serves `default_path`."""
    path, of_node = default_path(), control_socket_of(DEFAULT_NODE)
    return of_node if VARIABLE not in os.environ and of_node.exists() and not is_served(path) else path


def listen(path: Path) -> socket.socket:
    """A socket at this path, only for its owner. The socket of an ended process is replaced.

    Raises SocketInUse where the path is, ValueError for one that no socket can have, OSError where it cannot be made.
    """
    check_path(path)
    _own_folder(path.parent)
    make_way(path)
    listening = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        listening.bind(str(path))
    except BaseException as error:
        listening.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise SocketInUse(f"another process listens at {one_line(str(path))}; pass another --socket") from None
        raise
    finally:
        os.umask(mask)
    return listening


def make_way(path: Path) -> None:
    """Removes a socket at which nobody listens any more. Raises SocketInUse if something else is there."""
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_socket():
        raise SocketInUse(f"{one_line(str(path))} is not a socket; pass another --socket")
    if is_served(path):
        raise SocketInUse(f"another process listens at {one_line(str(path))}; pass another --socket")
    path.unlink(missing_ok=True)


def _own_folder(folder: Path) -> None:
    """A folder that is not there is made for its owner alone; one in /tmp must be nobody else's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder != Path(f"/tmp/drahealth-{os.geteuid()}"):
        return
    found = folder.lstat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise SocketInUse(f"other users can use {folder}; remove it, or pass another --socket")
