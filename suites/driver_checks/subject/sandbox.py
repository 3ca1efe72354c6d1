"""The sandbox of a driver as data."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from typing import get_args

from drahealth.fakes.hints import near
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.processes.mounts import Namespace

NAMESPACES: tuple[Namespace, ...] = ("mount", "network", "pid")
"""The namespaces of a sandbox by default. A user who is not root gets a user namespace too."""

KUBELET_DIR = "/var/lib/kubelet"
CDI_DIR = "/var/run/cdi"
CDI_DIRS = (CDI_DIR, "/run/cdi", "/etc/cdi")
ALWAYS_PRIVATE = (KUBELET_DIR, *CDI_DIRS)
"""Directories that are the run's own in each mount namespace."""

_SHARED = ("/proc", "/sys")


SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where programs in Pods look for access to the API server. Source: Kubernetes, "Accessing the API from a Pod"."""


@dataclass(frozen=True, slots=True)
class Volume:
    """What is mounted in a sandbox at a path: a directory of the node, or an own one with these files."""

    path: str
    source: str = ""
    """The directory of the node; empty for an own one."""
    files: tuple[tuple[str, str], ...] = ()
    """Relative paths and contents."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a driver process and its helpers have of their own. Raises ConfigurationError for invalid values."""

    namespaces: tuple[Namespace, ...] = NAMESPACES
    """`mount`: private directories, and /sys that is read-only. `network`: loopback only, where the API server is.
    `pid`: all processes end with the sandbox. `user`: the user is root inside, without rights outside."""
    private: tuple[str, ...] = ()
    """Further directories that are private: empty at the start, except /dev, which has the devices of containers."""

    volumes: tuple[Volume, ...] = ()
    """The volumes of the driver's Pod. A directory of the node that is not private is that of this machine."""

    def __post_init__(self) -> None:
        for name in self.namespaces:
            if name not in get_args(Namespace):
                raise ConfigurationError(f"unknown namespace {name!r}", near(name, get_args(Namespace)))
        if self.private and "mount" not in self.namespaces:
            raise ConfigurationError("private directories need the mount namespace", "add `mount` to the namespaces")
        for path in self.private:
            try:
                check_private(path)
            except ValueError as error:
                raise ConfigurationError(f"private directory {error}", "an example is /run/nri") from None

    @property
    def private_directories(self) -> tuple[str, ...]:
        """All private directories as drivers see them; empty without a mount namespace."""
        if "mount" not in self.namespaces:
            return ()
        own = (one.path for one in self.volumes if not one.source)
        return tuple(dict.fromkeys((*ALWAYS_PRIVATE, *self.private, *own)))

    def ways(self, *, root: bool) -> Sequence[Sequence[Namespace]]:
        """The namespaces to try in turn. Users who are not root need a user namespace, and so does root in
        containers."""
        others: list[Namespace] = [name for name in self.namespaces if name != "user"]
        with_user: list[Namespace] = ["user", *others]
        return [others, with_user] if root and "user" not in self.namespaces else [with_user]


def check_private(path: str) -> None:
    """Raises ValueError for a path that cannot be private."""
    if not path.startswith("/") or normpath(path) != path or path == "/":
        raise ValueError(f"must be an absolute path below /, without `..`, got {path!r}")
    if any(Path(path).is_relative_to(shared) for shared in _SHARED):
        raise ValueError(f"must not be in /proc or /sys, which the kernel provides, got {path!r}")
