"""The interface between a DRA driver and the helper, and the options of the helper."""

import logging
import math
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol, runtime_checkable

import grpc.aio

from drahealth.fakes.cluster.api import ListWatch, Object
from drahealth.proto.health_apis import HEALTH_APIS, RELEASED, HealthApi
from drahealth.proto.services import PREPARE
from drahealth.proto.sockets import PATH_LIMIT, check_path
from drahealth.proto.values import DeviceHealth

# The interface between a DRA driver and the helper: the driver's functions, their arguments and results.
#
# Source: kubeletplugin, `DRAPlugin`, `PrepareResult`, `Device`, `NamespacedObject`; for health, its v0.37.


@dataclass(frozen=True, slots=True)
class NamespacedObject:
    """Namespace, name and uid of an object."""

    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.uid}"


@dataclass(frozen=True, slots=True)
class Device:
    """A prepared device."""

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    """Requests of the claim that use the device; empty: all. The helper removes subrequests (the part after `/`)."""
    cdi_ids: tuple[str, ...] = ()
    """Each as `vendor/class=name`."""
    share_id: str | None = None
    """Id of the share, for a device that several claims share; v1beta1 has no such field."""


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """Result of preparing one claim: its devices, or an error; after an error a kubelet retries."""

    devices: tuple[Device, ...] = ()
    error: Exception | None = None


class DRAPlugin(Protocol):
    """A driver. The helper calls it serially unless `Options.serialize` is False."""

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        """Prepares the devices of allocated claims, as read from the API server.

        Returns one result for each claim uid. A kubelet may repeat the call for a prepared claim. An exception fails
        the whole call.
        """

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        """Releases the devices of claims; a claim that is not prepared is no error. The API objects may be deleted.

        Returns an error or None for each claim uid. An exception fails the whole call.
        """


class HealthNotSupported(Exception):
    """Raised by `watch_health` if the driver cannot report device health."""


@runtime_checkable
class HealthPlugin(Protocol):
    """A driver that reports device health."""

    def watch_health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """Yields the health of all devices: once at the start, then after each change. Omitted devices are removed.

        One iteration feeds the streams of all health APIs. When it ends, the streams end; the next stream starts a new
        iteration. After HealthNotSupported the health APIs answer Unimplemented.
        """


# The options of a driver's helper.
#
# Source: kubeletplugin, the functions that make an `Option`; here they are the fields of one dataclass.

KUBELET_PLUGINS_DIR = Path("/var/lib/kubelet/plugins")
"""Default parent of the drivers' data directories."""
KUBELET_REGISTRY_DIR = Path("/var/lib/kubelet/plugins_registry")
"""Default directory in which a kubelet looks for registration sockets."""


Listen = Callable[[Path], str]
"""Returns the gRPC address to listen at for a socket path; may remove an old file first."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LIMIT = 63
_HASH = 12
"""Characters of a hash; with 12, the longest driver name fits into the default directories."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a helper. Raises ValueError if one is invalid."""

    driver_name: str
    """A DNS name such as gpu.example.com."""
    _: KW_ONLY

    # -- node and API server

    node_name: str = ""
    """Name of the node; needed to publish resources."""
    node_uid: str = ""
    """Uid of the node, for the owner reference of ResourceSlices; if empty, it is read once."""
    node: Object | None = None
    """The Node object, in place of `node_name` and `node_uid`."""
    owned_by_node: bool = True
    """Set an owner reference, so that Kubernetes deletes ResourceSlices with their node."""
    api: ListWatch | None = None
    """The API server; needed to prepare claims and to publish resources. The helper gets ResourceClaims; it lists,
    watches, creates, updates and deletes ResourceSlices; it gets the Node unless its uid is given."""

    # -- sockets

    registrar_dir: Path = KUBELET_REGISTRY_DIR
    """Directory in which the kubelet looks for the registration socket; same path inside and outside a container."""
    registrar_socket: str = ""
    """File name of the registration socket; empty: `<driver>-reg.sock`. Not with rolling updates."""
    plugin_data_dir: Path | None = None
    """Directory of the plugin's socket, used by this driver only; same path for the kubelet. None: a folder with the
    driver's name in `KUBELET_PLUGINS_DIR`."""
    rolling_update: str = ""
    """Uid of the driver's Pod, if two instances can overlap in a rolling update (Kubernetes 1.33 or newer). Both use
    the same data directory and different sockets, and must not keep state in memory between calls."""
    registrar_listener: Listen | None = None
    plugin_listener: Listen | None = None
    """Functions that choose the listen addresses; None: listen at the path, and replace an existing file."""

    # -- services

    serialize: bool = True
    """Serialize prepare and unprepare calls, also between the instances of a rolling update."""
    flock_dir: Path | None = None
    """Existing directory for the lock file of the instances, used by this driver only; None: the data directory."""
    dra_versions: tuple[str, ...] = tuple(PREPARE)
    """Versions of the node service, the preferred one first."""
    health_apis: tuple[str, ...] = RELEASED
    """Health APIs that a driver with health advertises and serves; empty: it reports no health."""
    heartbeat: float = 10.0
    """Seconds between complete health reports without a change; 0: none."""
    interceptors: tuple[grpc.aio.ServerInterceptor, ...] = ()
    """Interceptors of all calls of both sockets, unary and streaming, outermost first."""
    log_calls: int | None = logging.DEBUG
    """Log level of gRPC calls; None: do not log them."""
    on_error: Callable[[Exception], None] | None = None
    """Receives errors of background tasks: rejected ResourceSlices, a failed health watch."""

    # -- deliberate errors, for fakes

    advertised: tuple[str, ...] | None = None
    """Versions in the registration; None: the served ones."""
    served_health: tuple[str, ...] | None = None
    """Served health APIs, as names in `proto.health_apis.HEALTH_APIS`; None: those of `health_apis`."""
    verbatim: bool = False
    """Return prepared devices unchecked and unchanged, with subrequests, and no claim without a result."""
    plugin_type: str = "DRAPlugin"
    """Type of the plugin in its registration."""
    one_socket: bool = False
    """Serve all services on the registration socket, and register without an endpoint."""
    registration_error: Callable[[str], str] | None = None
    """Returns the error of a call of the registration service (GetInfo, NotifyRegistrationStatus); empty for none."""
    main_pool: str = ""
    """Pool whose ResourceSlices are named after node and driver only; empty: the pool with the node's name."""

    def __post_init__(self) -> None:
        self._check_names()
        self._check_sockets()
        self._check_services()

    # -- derived values

    @property
    def node_of(self) -> tuple[str, str]:
        """Name and uid of the node; empty if unknown."""
        metadata = self.node["metadata"] if self.node else {}
        return metadata.get("name", self.node_name), metadata.get("uid", self.node_uid)

    @property
    def data_dir(self) -> Path:
        """Directory of the plugin's socket."""
        return self.plugin_data_dir or KUBELET_PLUGINS_DIR / self.driver_name

    @property
    def plugin_socket(self) -> Path:
        """Socket of the node service and the health APIs."""
        return _fitting(self.data_dir, f"dra{self._suffix}", ".sock")

    @property
    def registration_socket(self) -> Path:
        """Socket of the registration service."""
        if self.registrar_socket:
            return self.registrar_dir / self.registrar_socket
        return _fitting(self.registrar_dir, f"{self.driver_name}{self._suffix}", "-reg.sock")

    @property
    def supported_versions(self) -> tuple[str, ...]:
        """Versions in the registration of a driver with health."""
        return (*self.dra_versions, *self.health_apis) if self.advertised is None else self.advertised

    @property
    def supported_without_health(self) -> tuple[str, ...]:
        """Versions in the registration of a driver without health."""
        return self.dra_versions if self.advertised is None else self.advertised

    @property
    def served_apis(self) -> tuple[HealthApi, ...]:
        """The served health APIs."""
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
            raise ValueError(
                f"driver_name must be a DNS name of at most {_NAME_LIMIT} characters, such as gpu.example.com, "
                f"got {self.driver_name!r}"
            )
        if self.node and not self.node.get("metadata", {}).get("name"):
            raise ValueError("node must be a Node object with metadata.name")
        if self.node and (self.node_name or self.node_uid):
            raise ValueError("set either node, or node_name and node_uid, not both")
        if self.node_uid and not self.node_name:
            raise ValueError("node_uid needs node_name; set both")

    def _check_sockets(self) -> None:
        if self.registrar_socket and self.rolling_update:
            raise ValueError("set registrar_socket or rolling_update, not both; each instance needs its own socket")
        for name in (self.registrar_socket, self.rolling_update):
            if "/" in name or name in (".", ".."):
                raise ValueError(f"registrar_socket and rolling_update must be file names without `/`, got {name!r}")
        if self.registrar_socket.startswith("."):
            raise ValueError(f"registrar_socket must not start with a dot, got {self.registrar_socket!r}")
        for path in (self.plugin_socket, self.registration_socket):
            check_path(path)
            check_path(hidden(path))

    def _check_services(self) -> None:
        if not 0 <= self.heartbeat < math.inf:
            raise ValueError(f"heartbeat must be a finite number of seconds, at least 0 (none), got {self.heartbeat}")
        if not self.dra_versions and self.advertised is None:
            raise ValueError(f"dra_versions is empty; set at least one of {', '.join(PREPARE)}")
        if unknown := sorted(set(self.dra_versions) - set(PREPARE)):
            raise ValueError(f"dra_versions must be some of {', '.join(PREPARE)}, got {unknown[0]!r}")
        services = dict.fromkeys(health_api.advertised for health_api in HEALTH_APIS.values())
        if self.advertised is None and (unknown := sorted(set(self.health_apis) - set(services))):
            raise ValueError(f"health_apis must be some of {', '.join(services)}, got {unknown[0]!r}")
        if unknown := sorted(set(self.served_health or ()) - set(HEALTH_APIS)):
            raise ValueError(f"served_health must be some of {', '.join(HEALTH_APIS)}, got {unknown[0]!r}")


def hidden(socket: Path) -> Path:
    """The file next to a socket on which the server listens; kubelets ignore names that start with a dot (W-10)."""
    return socket.with_name(f".{socket.name.removesuffix('.sock')}")


def _fitting(folder: Path, name: str, ending: str) -> Path:
    """The path of a socket. If it is too long, for example with a Pod uid, a hash replaces the name."""
    path = folder / f"{name}{ending}"
    if len(os.fsencode(path)) <= PATH_LIMIT:
        return path
    shorter = folder / f"{sha256(name.encode()).hexdigest()[:_HASH]}{ending}"
    return shorter if len(os.fsencode(shorter)) <= PATH_LIMIT else path
