"""The options of `drahealth manager`, checked before anything is started."""

import math
import os
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from drahealth.fakes.cluster.object_rules import is_name
from drahealth.manager.profile import KEP, Gates, Profile
from drahealth.manager.releases import DEFAULT_VERSION, PROFILES
from drahealth.proto.sockets import PATH_LIMIT
from drahealth.proto.values import MESSAGE_GATE, STATUS_GATE
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.manager_command.output import check_history_file
from drahealth.suites.output_paths import check_output_folder
from drahealth.suites.targets.option import API_SERVER, ApiServerKind
from drahealth.suites.targets.versions import parse_version, profile_of

ROOM_FOR_NAMES = 52
"""Bytes of a socket's path that are left for `/plugins_registry/DRIVER-reg.sock`, so a driver's name may have 25."""

METRICS_TOKEN = "metrics-token"
"""Name of the file in the root directory with the bearer token of the metrics."""


@dataclass(frozen=True, slots=True)
class Options:
    """Absolute paths; `resync` in seconds; `metrics_port` None for no metrics, 0 for any free port.

    `history` is a file that does not exist yet; None for none. `kubernetes` is the release of a real API server.
    """

    root: Path
    pods: Path
    profile: Profile
    node_name: str
    resync: float
    gates: Gates
    metrics_port: int | None
    json: bool
    history: Path | None = None
    api_server: ApiServerKind = "memory"
    kubernetes: str | None = None

    @classmethod
    def make(
        cls,
        *,
        root_dir: Path,
        pods: Path | None,
        profile: str | None,
        node_name: str | None,
        resync: float,
        feature_gates: str | None,
        metrics_port: int | None,
        json: bool,
        history: Path | None = None,
        api_server: str = "memory",
        kubernetes: str | None = None,
    ) -> "Options":
        """The options from the command's flags; creates the directories. Raises ConfigurationError."""
        kind = API_SERVER.value(api_server)
        kubernetes = kubernetes and parse_version(kubernetes)
        behavior = _profile(profile, kind, kubernetes)
        if not 0 < resync < math.inf:
            raise ConfigurationError(
                f"--resync must be a number of seconds above 0, got {resync:g}", "the default is 60"
            )
        if metrics_port is not None and not 0 <= metrics_port < 1 << 16:
            raise ConfigurationError(
                f"--metrics-port must be between 0 and 65535, got {metrics_port}", "0 selects a free port"
            )
        name = node_name or socket.gethostname().lower()
        if not is_name(name):
            raise ConfigurationError(f"invalid node name {name!r}", "pass --node-name, such as node-a")
        gates = gates_of(feature_gates or "")
        root = root_dir.absolute()
        _check_place(root)
        _check_length(root)
        _make_private(root)  # the first change of a file: a rejected value leaves no directory
        folder = (pods or root / "pods").absolute()
        for path in (root, folder):
            check_output_folder(str(path))
        _check_owner(root)
        record = history.absolute() if history else None
        if record:
            check_history_file(record)
        return cls(root, folder, behavior, name, resync, gates, metrics_port, json, record, kind, kubernetes)


def _profile(name: str | None, kind: ApiServerKind, kubernetes: str | None) -> Profile:
    """By default kep, and with a real API server that of its release."""
    if name is not None and name not in PROFILES:
        raise ConfigurationError(f"unknown profile {name!r}", f"choose one of {', '.join(PROFILES)}")
    if kind == "memory":
        if kubernetes is not None:
            raise ConfigurationError("--kubernetes needs --api-server real", "the API server in memory has no release")
        return PROFILES[name or KEP.name]
    version = kubernetes or DEFAULT_VERSION
    release = profile_of(version)
    if name == KEP.name:
        raise ConfigurationError(
            "--profile kep needs --api-server memory: a real API server rejects names that only the KEP has",
            f"pass --profile {release.name}",
        )
    if name is not None and PROFILES[name].release != release.release:
        raise ConfigurationError(
            f"--profile {name} does not match the API server of Kubernetes {version}",
            f"pass --profile {release.name}, or --kubernetes with a release of {name[1:]}",
        )
    return release if name is None else PROFILES[name]


def gates_of(text: str) -> Gates:
    """The gates of `NAME=true|false,...`, as a kubelet takes them. Raises ConfigurationError."""
    given = {STATUS_GATE: True, MESSAGE_GATE: True}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        if name not in given:
            raise ConfigurationError(f"unknown feature gate {name!r}", f"valid gates: {', '.join(given)}")
        if value.lower() not in ("true", "false"):
            raise ConfigurationError(f"feature gate {name} must be true or false, got {value!r}", f"write {name}=false")
        given[name] = value.lower() == "true"
    if given[MESSAGE_GATE] and not given[STATUS_GATE]:
        raise ConfigurationError(
            f"{MESSAGE_GATE} needs {STATUS_GATE}, which is off",
            f"write {STATUS_GATE}=false,{MESSAGE_GATE}=false",
        )
    return Gates(given[STATUS_GATE], given[MESSAGE_GATE])


def _check_place(root: Path) -> None:
    """The manager makes files in the directory, and a driver can remove sockets there."""
    if root.resolve() == Path(root.anchor):
        raise ConfigurationError(f"--root-dir must not be {root}, the root of the file system", "pass a new directory")


def _check_length(root: Path) -> None:
    room, size = PATH_LIMIT - ROOM_FOR_NAMES, len(os.fsencode(root))
    if size > room:
        raise ConfigurationError(
            f"--root-dir must be a path of at most {room} bytes, got {size}: {root}",
            f"it contains unix sockets, and the path of a unix socket has at most {PATH_LIMIT} bytes",
        )


def _make_private(root: Path) -> None:
    """Creates the directory for this user alone. An existing one keeps its mode."""
    with suppress(OSError):  # reported by the check whether it can be written
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700)


def _check_owner(root: Path) -> None:
    """Others could replace the kubeconfig and the sockets in a directory that they own or can write."""
    found, user = root.stat(), os.geteuid()
    if found.st_mode & stat.S_IWOTH:
        raise ConfigurationError(
            f"every user can write in {root}", "pass another --root-dir, such as a subdirectory of it"
        )
    if user not in (found.st_uid, 0):
        raise ConfigurationError(f"{root} belongs to another user", "pass another --root-dir")
