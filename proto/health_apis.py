"""The health APIs, one row each: name, gRPC method, fields, and the mapping to values.

`carries` names the fields of DeviceHealth that the API transports; decoding gives defaults for the others. Scenarios
that need more fields are not applicable.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from drahealth.proto import services
from drahealth.proto.health_v1_pb2 import DeviceHealth as ShippedHealth
from drahealth.proto.health_v1alpha1_pb2 import DeviceHealth as ShippedAlphaHealth
from drahealth.proto.node_health_draft_pb2 import Device as DraftDevice
from drahealth.proto.node_health_pb2 import DeviceHealth as DrawnHealth
from drahealth.proto.values import DeviceHealth, Health, PreparedDevice, Report

HEALTH_NUMBERS = {Health.UNKNOWN: 0, Health.HEALTHY: 1, Health.UNHEALTHY: 2}
"""The number of each health on the wire, the same in all health APIs with numbers."""
_HEALTHS = {number: health for health, number in HEALTH_NUMBERS.items()}
_WORDS = {str(health): health for health in Health}
_DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(DeviceHealth) if f.default is not MISSING}

Prepared = Mapping[tuple[str, str], PreparedDevice]
"""The prepared devices, by pool and name."""


@dataclass(frozen=True)
class HealthApi:
    """One health API: a method and the content of its messages."""

    name: str
    """Unique name; for a service with one such method, the advertised name."""
    advertised: str
    """The service of the method, as in a plugin's supported versions."""
    method: services.ServerStream[Any, Any]
    carries: frozenset[str]
    prepared_only: bool
    """A report lists only the devices of prepared claims. Each prepare and unprepare causes a report."""
    source: str
    """The Kubernetes releases with this API, or the KEP text that specifies it."""
    encode_device: Callable[[DeviceHealth, PreparedDevice | None], Any]
    decode_device: Callable[[Any], DeviceHealth]

    def encode(self, devices: Iterable[DeviceHealth], prepared: Prepared | None = None) -> Any:
        """The response message that reports `devices`, with their prepared claims."""
        known = prepared or {}
        return self.method.response(devices=[self.encode_device(d, known.get((d.pool, d.device))) for d in devices])

    def decode(self, response: Any) -> Report:
        """The devices of a response message, in order; without validation (H-09, H-10)."""
        return tuple([self.decode_device(device) for device in response.devices])

    def as_carried(self, device: DeviceHealth) -> DeviceHealth:
        """The device as the other end receives it."""
        lost = {name: value for name, value in _DEFAULTS.items() if name not in self.carries}
        return replace(device, **lost) if lost else device

    def all_as_carried(self, devices: Report) -> Report:
        """The same for a whole report."""
        return devices if self.carries >= _DEFAULTS.keys() else tuple(map(self.as_carried, devices))


def _shipped(name: str, method: services.ServerStream[Any, Any], message: type[Any], source: str) -> HealthApi:
    def encode(device: DeviceHealth, _: PreparedDevice | None) -> Any:
        return message(
            device={"pool_name": device.pool, "device_name": device.device},
            health=HEALTH_NUMBERS[device.health],
            last_updated_time=device.updated,
            health_check_timeout_seconds=device.timeout,
            message=device.message,
        )

    def decode(device: Any) -> DeviceHealth:
        name = device.device
        health = _HEALTHS.get(device.health, Health.UNKNOWN)
        timeout, updated = device.health_check_timeout_seconds, device.last_updated_time
        return DeviceHealth(name.pool_name, name.device_name, health, device.message, timeout, updated)

    carries = frozenset({"pool", "device", "health", "message", "timeout", "updated"})
    return HealthApi(name, name, method, carries, False, source, encode, decode)


def _encode_node_health(device: DeviceHealth, _: PreparedDevice | None) -> DrawnHealth:
    return DrawnHealth(
        pool_name=device.pool,
        device_name=device.device,
        health_status=str(device.health),
        last_updated_timestamp=device.updated,
        health_check_timeout_seconds=device.timeout,
    )


def _decode_node_health(device: DrawnHealth) -> DeviceHealth:
    return DeviceHealth(
        pool=device.pool_name,
        device=device.device_name,
        health=_WORDS.get(device.health_status, Health.UNKNOWN),
        timeout=device.health_check_timeout_seconds,
        updated=device.last_updated_timestamp,
    )


def _encode_draft(device: DeviceHealth, prepared: PreparedDevice | None) -> DraftDevice:
    return DraftDevice(
        request_names=prepared.requests if prepared else (),
        pool_name=device.pool,
        device_name=device.device,
        cdi_device_ids=prepared.cdi_ids if prepared else (),
        health=str(device.health),
    )


def _decode_draft(device: DraftDevice) -> DeviceHealth:
    return DeviceHealth(device.pool_name, device.device_name, _WORDS.get(device.health, Health.UNKNOWN))


V1 = _shipped("v1.DRAResourceHealth", services.WATCH_HEALTH_V1, ShippedHealth, "Kubernetes 1.37")
V1ALPHA1 = _shipped(
    "v1alpha1.DRAResourceHealth", services.WATCH_HEALTH_V1ALPHA1, ShippedAlphaHealth, "Kubernetes 1.34 and newer"
)
NODE_HEALTH = HealthApi(
    name="v1alpha1.NodeHealth/WatchResources",
    advertised="v1alpha1.NodeHealth",
    method=services.WATCH_NODE_HEALTH,
    carries=frozenset({"pool", "device", "health", "timeout", "updated"}),
    prepared_only=False,
    source="KEP-4680, newest revision",
    encode_device=_encode_node_health,
    decode_device=_decode_node_health,
)
NODE_HEALTH_DRAFT = HealthApi(
    name="v1alpha1.NodeHealth/WatchDevicesStatus",
    advertised="v1alpha1.NodeHealth",
    method=services.WATCH_DEVICES_STATUS,
    carries=frozenset({"pool", "device", "health"}),
    prepared_only=True,
    source="KEP-4680, oldest revision",
    encode_device=_encode_draft,
    decode_device=_decode_draft,
)

HEALTH_APIS = {health_api.name: health_api for health_api in (V1, V1ALPHA1, NODE_HEALTH, NODE_HEALTH_DRAFT)}
"""Every health API by its name, in the order in which a kubelet prefers them (W-18 in docs/facts.md)."""

RELEASED = (V1.advertised, V1ALPHA1.advertised)
"""The services of Kubernetes releases. A driver on the library `fakes.kubelet_plugin` advertises them by default."""

SERVED_BY_FAKES = (*RELEASED, NODE_HEALTH.advertised)
"""The services that a fake driver advertises by default: the released ones, and that of the KEP's text."""


def of_service(advertised: str) -> tuple[HealthApi, ...]:
    """The methods of an advertised service, in the order in which a kubelet tries them."""
    return tuple(health_api for health_api in HEALTH_APIS.values() if health_api.advertised == advertised)


def check_served(api: str) -> None:
    """Raises ValueError unless all names are keys of `HEALTH_APIS`."""
    if api not in HEALTH_APIS:
        raise ValueError(f"unknown health API {api!r}; valid: {', '.join(HEALTH_APIS)}")


def check_advertised(api: str) -> None:
    """Raises ValueError for a method name (a key of `HEALTH_APIS`) in place of a service."""
    if api in HEALTH_APIS and api != (service := HEALTH_APIS[api].advertised):
        raise ValueError(f"{api} is a method and cannot be advertised; advertise {service}, and serve {api}")


def full_name(api: str) -> str:
    """The health API for the short name `v1` or `v1alpha1`."""
    return f"{api}.DRAResourceHealth" if "." not in api and "/" not in api else api
