"""A new user of drahealth on this machine."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path.home() / ".cache"
"""The caches of this user, with the binaries of Kubernetes."""
_OF_THIS_USER = ("DRAHEALTH_", "GITHUB_", "KUBECONFIG", "PYTEST_", "VIRTUAL_ENV", "XDG_")


@contextmanager
def new_user() -> Iterator[tuple[Path, dict[str, str]]]:
    """A home directory that has only the caches of this user, and the environment of a program of the new user.

    At the end, also after SIGTERM, the nodes and the files of the new user are removed.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(1))  # a shell that runs this in the background ignores it
    with tempfile.TemporaryDirectory(prefix="dh-", dir="/tmp") as folder:
        CACHE.mkdir(exist_ok=True)
        home = Path(folder)
        (home / ".cache").symlink_to(CACHE)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_THIS_USER)}
        environment = {**kept, "HOME": folder}
        try:
            yield home, environment
        finally:
            remove_nodes(environment)


def remove_nodes(environment: dict[str, str]) -> None:
    """Removes the nodes of the new user."""
    command = [sys.executable, "-m", "drahealth.suites", "down", "--all"]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
