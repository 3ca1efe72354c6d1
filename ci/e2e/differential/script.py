"""A script: drivers, device plugins, claims, pods and steps; its validation and its file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from google.protobuf.message import DecodeError
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from differential.lane import Played
from drahealth.fakes.control.fake_options import Returned
from drahealth.fakes.program.errors import plain
from drahealth.proto.health_apis import RELEASED
from drahealth.proto.health_v1_pb2 import DeviceHealth, NodeWatchResourcesResponse
from drahealth.suites.errors import ConfigurationError

# A script: drivers, device plugins, claims, pods, and steps. Plain data with a JSON form.
#
# Drivers, plugins, claims and pods are named by their index in the script's lists, so a script is the same in all
# plays. Each step is complete before the next one begins (`player`).

_CLOSED = ConfigDict(extra="forbid", ser_json_inf_nan="constants")
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Device:
    """A published device. `returned` are the devices that the driver returns for it; None: the device itself."""

    name: str
    returned: tuple[Returned, ...] | None = None


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Driver:
    """A driver. One instance runs at the start. `greets`: it reports all devices on every new stream."""

    devices: tuple[Device, ...]
    pool: str = "pool"
    advertised: tuple[str, ...] = RELEASED
    served: tuple[str, ...] | None = None
    cdi_ids: bool = True
    greets: bool = True
    timeout: Annotated[int, Field(ge=0, lt=2**31)] = 0


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Plugin:
    """A device plugin. One instance runs at the start, and lists all devices as Healthy.

    `directory`: it has a socket in the registration directory; otherwise it calls the kubelet.
    """

    devices: tuple[str, ...]
    directory: bool = False


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Request:
    """A request of a claim, for a number of devices of a driver."""

    name: str
    driver: int
    count: Annotated[int, Field(ge=1, le=32)] = 1


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim that pods may share."""

    requests: tuple[Request, ...]


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Use:
    """The part of a claim that a container uses: the whole claim, or one request."""

    claim: int
    request: str | None = None


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Held:
    """The devices of a device plugin that a container requests."""

    plugin: int
    count: Annotated[int, Field(ge=1, le=8)] = 1


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, with the claims and the plugins' devices of each container. `later`: a step creates it."""

    containers: tuple[tuple[Use | Held, ...], ...]
    later: bool = False


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of a device on the wire. `health` is the number of the enum value, known or unknown.

    `count` above 1 stands for that many devices, with `-1`, `-2`, ... appended to the names of all but the first.
    `identified` False omits the device identifier. `timeout` and `updated` are in seconds.
    """

    pool: str
    device: str
    health: Int32
    message: str = ""
    timeout: Int64 = 0
    updated: Int64 = 0
    count: Annotated[int, Field(ge=1, le=20000)] = 1
    identified: bool = True


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Report:
    """One message on the instance's stream. `pause` is the time in seconds between moment `pushed` and the sync."""

    driver: int
    says: tuple[Reading, ...]
    instance: Literal[0, 1] = 0
    pause: Annotated[float, Field(ge=0, le=60)] = 0.0
    step: Literal["report"] = "report"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Garbage:
    """Bytes on the instance's stream that are not a message, in hexadecimal."""

    driver: int
    payload: Annotated[str, Field(pattern="^([0-9a-f]{2})*$")]
    instance: Literal[0, 1] = 0
    step: Literal["garbage"] = "garbage"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class EndStream:
    """The end of the instance's stream, with this gRPC status code."""

    driver: int
    code: str
    instance: Literal[0, 1] = 0
    step: Literal["end-stream"] = "end-stream"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Start:
    """The start and registration of a stopped instance, or of a second one."""

    driver: int
    instance: Literal[0, 1] = 0
    step: Literal["start"] = "start"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Stop:
    """The deregistration and end of an instance."""

    driver: int
    instance: Literal[0, 1] = 0
    step: Literal["stop"] = "stop"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Listed:
    """A device in a device plugin's list, with its health text."""

    device: str
    health: str = "Healthy"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class ListDevices:
    """One list of a device plugin. It sends the devices in the order of `Plugin.devices`."""

    plugin: int
    devices: tuple[Listed, ...]
    instance: Literal[0, 1] = 0
    step: Literal["list"] = "list"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class EndList:
    """The end of a device plugin's list, without an error. The plugin runs on."""

    plugin: int
    instance: Literal[0, 1] = 0
    step: Literal["end-list"] = "end-list"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class StartPlugin:
    """The start and registration of a stopped instance of a device plugin, or of a second one."""

    plugin: int
    instance: Literal[0, 1] = 0
    step: Literal["start-plugin"] = "start-plugin"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class StopPlugin:
    """The end of an instance of a device plugin."""

    plugin: int
    instance: Literal[0, 1] = 0
    step: Literal["stop-plugin"] = "stop-plugin"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Silence:
    """A pause in seconds. `looks` False skips the sync and the snapshot, so changes show only at the next sync."""

    seconds: Annotated[float, Field(ge=0, le=120)]
    looks: bool = True
    step: Literal["silence"] = "silence"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class StartPod:
    """The creation of a pod with `later`."""

    pod: int
    step: Literal["start-pod"] = "start-pod"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class DeletePod:
    """The deletion of a pod."""

    pod: int
    step: Literal["delete-pod"] = "delete-pod"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class RestartKubelet:
    """A restart of the kubelet, for all plays on it. The kubelet is killed."""

    step: Literal["restart-kubelet"] = "restart-kubelet"


DriverStep = Report | Garbage | EndStream | Start | Stop
"""The steps of drivers."""

PluginStep = ListDevices | EndList | StartPlugin | StopPlugin
"""The steps of device plugins."""

PodStep = StartPod | DeletePod
"""The steps of Pods."""

Step = Annotated[
    DriverStep | PluginStep | PodStep | Silence | RestartKubelet,
    Field(discriminator="step"),
]


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Script:
    """A script."""

    drivers: tuple[Driver, ...]
    claims: tuple[Claim, ...]
    pods: tuple[Pod, ...]
    steps: tuple[Step, ...] = ()
    plugins: tuple[Plugin, ...] = ()

    @property
    def restarts(self) -> int:
        """The number of restarts of the kubelet."""
        return sum(isinstance(step, RestartKubelet) for step in self.steps)


# Reports of a script as bytes. They can hold values that the fake driver does not send, such as an unknown health.

LONGEST = 4 * 1024 * 1024
"""Maximum size in bytes of a message that a kubelet accepts (B-16)."""


def encode(says: tuple[Reading, ...]) -> bytes:
    """The message of a health stream. It is the same for v1 and v1alpha1."""
    return NodeWatchResourcesResponse(
        devices=[_device(reading, name) for reading in says for name in names(reading)]
    ).SerializeToString()


def names(reading: Reading) -> list[str]:
    """The names of all devices of a reading."""
    return [reading.device] + [f"{reading.device}-{number}" for number in range(1, reading.count)]


def _device(reading: Reading, name: str) -> DeviceHealth:
    device = DeviceHealth(
        last_updated_time=reading.updated,
        health_check_timeout_seconds=reading.timeout,
        message=reading.message,
    )
    device.health = reading.health  # type: ignore[assignment]  # an open enum: other numbers pass
    if reading.identified:
        device.device.pool_name, device.device.device_name = reading.pool, name
    return device


def decode(payload: bytes) -> tuple[Reading, ...]:
    """The readings of a message; none if the bytes are not a message."""
    try:
        message = NodeWatchResourcesResponse.FromString(payload)
    except DecodeError:
        return ()
    return tuple(
        Reading(
            device.device.pool_name,
            device.device.device_name,
            device.health,
            device.message,
            device.health_check_timeout_seconds,
        )
        for device in message.devices
    )


# Validation of scripts. Pure.


def find_error(script: Script) -> str:
    """The error that makes a script invalid; empty for a valid one."""
    return _set_up_error(script) or _plugins_error(script) or _steps_error(script) or _plugin_steps_error(script)


def _set_up_error(script: Script) -> str:
    wanted = [0] * len(script.drivers)
    for number, claim in enumerate(script.claims):
        if len({request.name for request in claim.requests}) != len(claim.requests) or not claim.requests:
            return f"claim {number} has no requests, or two with the same name"
        for request in claim.requests:
            if not 0 <= request.driver < len(script.drivers):
                return f"claim {number} names driver {request.driver}, which does not exist"
            wanted[request.driver] += request.count
    for number, driver in enumerate(script.drivers):
        if len({device.name for device in driver.devices}) != len(driver.devices):
            return f"driver {number} has two devices with the same name"
        if wanted[number] > len(driver.devices):
            return f"driver {number} has too few devices for the claims"
    for number, pod in enumerate(script.pods):
        if not pod.containers:
            return f"pod {number} has no containers"
        if any(_is_bad_use(script, use) for container in pod.containers for use in container):
            return f"pod {number} uses a claim, request or device plugin that does not exist"
        if any(len(set(container)) != len(container) for container in pod.containers):
            return f"pod {number} has a container with the same claim or device plugin twice"
    return ""


def _plugins_error(script: Script) -> str:
    """Errors of device plugins. Each has enough devices for all pods, so each pod can start."""
    for number, plugin in enumerate(script.plugins):
        if len(set(plugin.devices)) != len(plugin.devices):
            return f"plugin {number} has two devices with the same id"
        uses = [use for pod in script.pods for container in pod.containers for use in container]
        if sum(use.count for use in uses if isinstance(use, Held) and use.plugin == number) > len(plugin.devices):
            return f"plugin {number} has too few devices for the pods"
    for number, pod in enumerate(script.pods):
        held = [[use.plugin for use in container if isinstance(use, Held)] for container in pod.containers]
        if any(len(set(numbers)) != len(numbers) for numbers in held):
            return f"pod {number} has a container with the same device plugin twice"
    return ""


def _is_bad_use(script: Script, use: Use | Held) -> bool:
    if isinstance(use, Held):
        return not 0 <= use.plugin < len(script.plugins)
    if not 0 <= use.claim < len(script.claims):
        return True
    return use.request is not None and use.request not in {r.name for r in script.claims[use.claim].requests}


def _steps_error(script: Script) -> str:
    """Errors of the order of steps: a stopped instance runs, a started one does not, and pods have their drivers."""
    running = {(number, 0) for number in range(len(script.drivers))}
    pods = {number for number, pod in enumerate(script.pods) if not pod.later}
    waiting = {number for number, pod in enumerate(script.pods) if pod.later}
    for number, step in enumerate(script.steps):
        match step:
            case Report() | Garbage() | EndStream() | Stop():
                if (step.driver, step.instance) not in running:
                    return f"step {number}: instance {step.instance} of driver {step.driver} does not run"
            case Start():
                if step.driver >= len(script.drivers) or (step.driver, step.instance) in running:
                    return f"step {number}: instance {step.instance} of driver {step.driver} runs or does not exist"
                running.add((step.driver, step.instance))
            case StartPod() | DeletePod():
                if step.pod not in (waiting if isinstance(step, StartPod) else pods):
                    return f"step {number}: pod {step.pod} cannot be started or deleted now"
                if any(
                    (driver, 0) not in running and (driver, 1) not in running for driver in range(len(script.drivers))
                ):
                    return f"step {number}: a pod starts or ends while one of the drivers is stopped"
                waiting.discard(step.pod)
                (pods.add if isinstance(step, StartPod) else pods.discard)(step.pod)
            case _:
                pass
        if isinstance(step, Stop):
            running.discard((step.driver, step.instance))
    return "" if script.restarts <= 1 else "the kubelet is restarted more than once"


def _plugin_steps_error(script: Script) -> str:
    """Errors of the steps of device plugins. A pod starts only while each of its plugins is as at the start."""
    running = {(number, 0) for number in range(len(script.plugins))}
    changed: set[int] = set()
    for number, step in enumerate(script.steps):
        if isinstance(step, StartPod):
            if changed.intersection(held_plugins(script, step.pod)):
                return f"step {number}: pod {step.pod} starts after a change of its device plugin"
            continue
        if not isinstance(step, PluginStep):
            continue
        if not 0 <= step.plugin < len(script.plugins):
            return f"step {number} names device plugin {step.plugin}, which does not exist"
        instance = (step.plugin, step.instance)
        if (instance in running) is isinstance(step, StartPlugin):
            return f"step {number}: instance {step.instance} of plugin {step.plugin} runs already, or does not run"
        match step:
            case StartPlugin():
                running.add(instance)
            case StopPlugin():
                running.discard(instance)
            case ListDevices():
                names = [listed.device for listed in step.devices]
                if len(set(names)) != len(names) or not set(names) <= set(script.plugins[step.plugin].devices):
                    return f"step {number} lists a device twice, or one that the plugin does not have"
            case EndList():
                pass
        changed.add(step.plugin)
    return ""


def held_plugins(script: Script, pod: int) -> set[int]:
    """The device plugins whose devices the pod requests."""
    return {use.plugin for container in script.pods[pod].containers for use in container if isinstance(use, Held)}


# Scripts as JSON files: written for scripts that differ, read to replay them.

_SCRIPT: TypeAdapter[Script] = TypeAdapter(Script)
_PLAYED: TypeAdapter[Played] = TypeAdapter(Played)


@dataclass(frozen=True, slots=True)
class Record:
    """A script, the release of the kubelet, the differences, and the observations on the kubelet."""

    script: Script
    kubernetes: str
    differences: tuple[str, ...] = ()
    seen: Played | None = None

    def dump(self) -> str:
        """As JSON."""
        data = {
            "kubernetes": self.kubernetes,
            "differences": list(self.differences),
            "script": script_to_json(self.script),
            "seen": None if self.seen is None else _PLAYED.dump_python(self.seen, mode="json"),
        }
        return json.dumps(data, indent=1, ensure_ascii=False)


def load_scripts(paths: Sequence[Path]) -> dict[int, Script]:
    """Load the scripts of files, numbered from 0. A file holds a record or a script. Raises ConfigurationError."""
    return {number: load_script(path) for number, path in enumerate(paths)}


def load_script(path: Path) -> Script:
    """Load the script of one file. Raises ConfigurationError."""
    return load_record(path).script


def load_record(path: Path) -> Record:
    """Load a record, or a script as a record. Raises ConfigurationError."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", "pass a file with a script") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: invalid JSON: {error}", "pass a file of ci/e2e/check-differential") from None
    record = data if isinstance(data, dict) and "script" in data else {"script": data}
    try:
        seen = None if record.get("seen") is None else _PLAYED.validate_python(record["seen"])
        differences = tuple(map(str, record.get("differences", ())))
        return Record(parse_script(json.dumps(record["script"])), str(record.get("kubernetes", "")), differences, seen)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error.message}", error.hint) from None
    except (ValidationError, TypeError):
        raise ConfigurationError(f"{path}: invalid field `seen` or `differences`", "remove them") from None


def script_to_json(script: Script) -> dict[str, Any]:
    """The script as plain data, without default values."""
    data: dict[str, Any] = _SCRIPT.dump_python(script, mode="json", exclude_defaults=True)
    steps = zip(script.steps, data.get("steps", []), strict=True)
    return {**data, "steps": [{"step": step.step, **fields} for step, fields in steps]}


def parse_script(text: str | bytes) -> Script:
    """Parse and validate a script. Raises ConfigurationError."""
    try:
        script = _SCRIPT.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise ConfigurationError(
            f"invalid script: {where}: {plain(first['msg'])}", "see ci/e2e/differential/README.md"
        ) from None
    if problem := find_error(script):
        raise ConfigurationError(f"invalid script: {problem}", "correct the script")
    return script
