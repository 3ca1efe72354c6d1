"""Where API servers keep their data below a root directory, and the port in its kubeconfig."""

import json
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit


def objects_folder(root: Path) -> Path:
    """The objects of a server in memory."""
    return root / "api"


def data_folder(root: Path) -> Path:
    """The data, keys and logs of a real server."""
    return root / "control-plane"


def port_in(kubeconfig: Path) -> int:
    """The port of the server in a kubeconfig of ours, where drivers that run look for the next one; 0 if none."""
    with suppress(OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        config = json.loads(kubeconfig.read_bytes())
        return urlsplit(config["clusters"][0]["cluster"]["server"]).port or 0
    return 0
