"""How a driver's helper is started.

Source: kubeletplugin, the functions that make an `Option`; here they are the fields of one dataclass.
"""

import logging
import math
import os
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from pathlib import Path

import grpc.aio

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.services import PREPARE
from drahealth.proto.sockets import PATH_LIMIT, check_path

KUBELET_PLUGINS_DIR = Path("/var/lib/kubelet/plugins")
"""Where each driver has its data directory, unless it says another."""
KUBELET_REGISTRY_DIR = Path("/var/lib/kubelet/plugins_registry")
"""Where a kubelet looks for registration sockets, unless it was told another."""

DRA_VERSIONS = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
DEFAULT_HEALTH_APIS = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")

Listen = Callable[[Path], str]
"""Gives the gRPC address to listen at for a socket of this path, and may make room for it first."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LIMIT = 63
_HASH = 12
"""Letters of a hash: with them the longest name of a driver fits into the default directories."""


@dataclass(frozen=True, slots=True)
class Options:
    """What makes a helper. Raises ValueError for what makes none."""

    driver_name: str
    """A DNS name such as gpu.example.com."""
    _: KW_ONLY

    # -- where it is

    node_name: str = ""
    """Needed to publish resources."""
    node_uid: str = ""
    """The node's uid, which ResourceSlices name as their owner; without, it is looked up once."""
    node: Object | None = None
    """The Node object, in place of both."""
    owned_by_node: bool = True
    """ResourceSlices go when their node does."""
    api: ListWatch | None = None
    """The API server; needed to prepare claims and to publish resources. ResourceClaims are read, ResourceSlices are
    listed, watched, created, updated and deleted, and the Node is read unless its uid is given."""

    # -- sockets

    registrar_dir: Path = KUBELET_REGISTRY_DIR
    """Where the kubelet looks for the registration socket; the same path inside and outside of a container."""
    registrar_socket: str = ""
    """The name of the registration socket; empty: `<driver>-reg.sock`. Not with rolling updates."""
    plugin_data_dir: Path | None = None
    """Where the plugin's socket is, the same path for the kubelet, and nobody else's; None: the driver's name in
    `KUBELET_PLUGINS_DIR`."""
    rolling_update: str = ""
    """The pod's uid, if two instances may run side by side for a while (Kubernetes 1.33 or newer). Both then have the
    same data directory, sockets of their own, and no state in memory from one call to the next."""
    registrar_listener: Listen | None = None
    plugin_listener: Listen | None = None
    """How the sockets are made; None: a file that is there is replaced."""

    # -- services

    serialize: bool = True
    """Prepare and unprepare calls come one after the other, in all instances of a rolling update."""
    flock_dir: Path | None = None
    """Where instances lock each other out, which is there and nobody else's; None: the data directory."""
    dra_versions: tuple[str, ...] = DRA_VERSIONS
    """Versions of the node service, the preferred one first."""
    health_apis: tuple[str, ...] = DEFAULT_HEALTH_APIS
    """Health APIs that a driver with health advertises and serves; none: it opts out."""
    heartbeat: float = 10.0
    """Seconds between complete health reports while nothing changes; 0 for none."""
    interceptors: tuple[grpc.aio.ServerInterceptor, ...] = ()
    """See each call of both sockets, unary or stream, the first one first."""
    log_calls: int | None = logging.DEBUG
    """The level at which gRPC calls are logged; None: not at all."""
    on_error: Callable[[Exception], None] | None = None
    """Told of what goes wrong in the background: resources that are refused, a health watch that fails."""

    # -- what an odd driver does on purpose

    advertised: tuple[str, ...] | None = None
    """What registration says is supported; None: what is."""
    served_health: tuple[str, ...] | None = None
    """The served health APIs, by the names of `proto.health_apis.HEALTH_APIS`; None: those of `health_apis`."""
    verbatim: bool = False
    """Prepared devices are returned as the plugin has them, neither checked nor without what follows a slash."""
    main_pool: str = ""
    """The pool whose slices are called after node and driver alone; empty: the node's."""

    def __post_init__(self) -> None:
        self._check_names()
        self._check_sockets()
        self._check_services()

    # -- what follows from them

    @property
    def node_of(self) -> tuple[str, str]:
        """The node's name and uid, as far as they are known."""
        metadata = self.node["metadata"] if self.node else {}
        return metadata.get("name", self.node_name), metadata.get("uid", self.node_uid)

    @property
    def data_dir(self) -> Path:
        """Where the plugin's socket is."""
        return self.plugin_data_dir or KUBELET_PLUGINS_DIR / self.driver_name

    @property
    def plugin_socket(self) -> Path:
        """Where the kubelet calls the node service and the health APIs."""
        return _fitting(self.data_dir, f"dra{self._suffix}", ".sock")

    @property
    def registration_socket(self) -> Path:
        """Where the kubelet finds the driver."""
        if self.registrar_socket:
            return self.registrar_dir / self.registrar_socket
        return _fitting(self.registrar_dir, f"{self.driver_name}{self._suffix}", "-reg.sock")

    @property
    def supported_versions(self) -> tuple[str, ...]:
        """What registration says of the services."""
        return (*self.dra_versions, *self.health_apis) if self.advertised is None else self.advertised

    @property
    def supported_without_health(self) -> tuple[str, ...]:
        """The same of a driver that has no health to tell."""
        return self.dra_versions if self.advertised is None else self.advertised

    @property
    def served_apis(self) -> tuple[HealthApi, ...]:
        """The health APIs that are served."""
        served = self.served_health
        return tuple(
            health_api
            for health_api in HEALTH_APIS.values()
            if (health_api.advertised in self.health_apis if served is None else health_api.name in served)
        )

    # -- checks

    @property
    def _suffix(self) -> str:
        return f"-{self.rolling_update}" if self.rolling_update else ""

    def _check_names(self) -> None:
        if not self.verbatim and not (_NAME.fullmatch(self.driver_name) and len(self.driver_name) <= _NAME_LIMIT):
            raise ValueError(f"{self.driver_name!r} is no name of a driver, such as gpu.example.com")
        if self.node and not self.node.get("metadata", {}).get("name"):
            raise ValueError("the node is an object of the API, with a name in its metadata")
        if self.node and (self.node_name or self.node_uid):
            raise ValueError("either the node is given or its name and uid, not both")
        if self.node_uid and not self.node_name:
            raise ValueError("the uid of a node needs its name; give node_name too")

    def _check_sockets(self) -> None:
        if self.registrar_socket and self.rolling_update:
            raise ValueError("a registrar_socket cannot be named with a rolling_update: instances need one each")
        for name in (self.registrar_socket, self.rolling_update):
            if "/" in name or name in (".", ".."):
                raise ValueError(f"{name!r} is no part of a file's name; leave the slashes out")
        if self.registrar_socket.startswith("."):
            raise ValueError(f"kubelets pass over {self.registrar_socket!r}, as over all that begins with a dot")
        for path in (self.plugin_socket, self.registration_socket):
            check_path(path)
            check_path(hidden(path))

    def _check_services(self) -> None:
        if not 0 <= self.heartbeat < math.inf:
            raise ValueError(f"the heartbeat is a finite number of seconds, 0 for none, not {self.heartbeat}")
        if not self.dra_versions and self.advertised is None:
            raise ValueError(f"a driver serves some version of the node service; there are {', '.join(PREPARE)}")
        if strange := sorted(set(self.dra_versions) - set(PREPARE)):
            raise ValueError(f"no version of the node service is called {strange[0]!r}; there are {', '.join(PREPARE)}")
        services = dict.fromkeys(health_api.advertised for health_api in HEALTH_APIS.values())
        if self.advertised is None and (strange := sorted(set(self.health_apis) - set(services))):
            raise ValueError(f"no health API is called {strange[0]!r}; there are {', '.join(services)}")
        if strange := sorted(set(self.served_health or ()) - set(HEALTH_APIS)):
            raise ValueError(f"no health API is called {strange[0]!r}; there are {', '.join(HEALTH_APIS)}")


def hidden(socket: Path) -> Path:
    """The file beside a socket that the server listens on; kubelets pass over names that begin with a dot (W-10)."""
    return socket.with_name(f".{socket.name.removesuffix('.sock')}")


def _fitting(folder: Path, name: str, ending: str) -> Path:
    """A socket's path; a name that is too long for one, as with a pod's uid it may be, becomes its hash."""
    path = folder / f"{name}{ending}"
    if len(os.fsencode(path)) <= PATH_LIMIT:
        return path
    shorter = folder / f"{sha256(name.encode()).hexdigest()[:_HASH]}{ending}"
    return shorter if len(os.fsencode(shorter)) <= PATH_LIMIT else path
