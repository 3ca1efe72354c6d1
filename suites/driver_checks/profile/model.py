"""What a driver profile may say (`driver-profile/v1`), section by section."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from drahealth.fakes.cluster.api import KINDS, OTHER_KINDS
from drahealth.fakes.durations import Duration
from drahealth.fakes.hints import near
from drahealth.fakes.inventory.file import check_driver_name
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.declared_faults import (
    ACTION_LIMIT,
    Action,
    CallHttp,
    CreateFile,
    Fault,
    Heals,
    PatchObject,
    RemoveFile,
    RunCommand,
    SetEnvironment,
    TellBackend,
    WriteFile,
)
from drahealth.suites.driver_checks.sandbox.declared import NAMESPACES, READY_LIMIT, Namespace, check_private
from drahealth.suites.driver_checks.settings import GRACE
from drahealth.suites.driver_checks.subject.driver_pod import START_LIMIT
from drahealth.suites.driver_checks.subject.places import placeholders_in
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.versions import parse_version

# The values and the base of the sections of a driver profile.

_VARIABLE, _RELEASE = r"[A-Za-z_][A-Za-z0-9_]*", r"\d+\.\d+(\.\d+)?"


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a text that is not empty, got {value!r}")
    return value


def _driver_name(value: Any) -> str:
    if value:
        check_driver_name(value)
    return str(value)


def _variable(value: Any) -> str:
    if not re.fullmatch(_VARIABLE, str(value)):
        raise ValueError(f"must be the name of a variable such as LOG_LEVEL, got {value!r}")
    return str(value)


def _release(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(_RELEASE, value):
        raise ValueError(f"must be a release such as 1.37 or 1.37.1, got {value!r}")
    try:
        return parse_version(value)
    except ConfigurationError as error:
        raise ValueError(f"must be a known release: {error}") from None


def _seconds(value: Any) -> float:
    try:
        duration = Duration.parse(value) if isinstance(value, str) else None
    except ValueError:  # its hint has random durations, too
        duration = None
    if duration is None or duration.kind != "fixed":
        raise ValueError(f"must be a duration such as 500ms, 90s or 1m30s, got {value!r}")
    return duration.low


def _count(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 32:
        return value
    if value == "all":
        return "all"
    raise ValueError(f'must be "all" or between 1 and 32, got {value!r}')


def _private_directory(value: Any) -> str:
    check_private(path := _text(value))
    return path


Text = Annotated[str, BeforeValidator(_text), Field(min_length=1)]
PrivateDirectory = Annotated[str, BeforeValidator(_private_directory)]
DriverName = Annotated[str, BeforeValidator(_driver_name)]
Variable = Annotated[str, BeforeValidator(_variable)]
Release = Annotated[str, BeforeValidator(_release), WithJsonSchema({"type": "string", "pattern": f"^{_RELEASE}$"})]
Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "pattern": r"^ *\d", "examples": ["500ms", "90s", "1m30s"]}),
]
"""A fixed duration, in seconds."""
DeviceCount = Annotated[
    int | Literal["all"],
    BeforeValidator(_count),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 32}, {"const": "all"}]}),
]


class Section(BaseModel):
    """A part of a driver profile; keys have hyphens in place of underscores."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )


# [[fault]] of a driver profile: how drahealth breaks a device, and what the driver must report.

_MORE = {
    "create": {"text"},
    "remove": set[str](),
    "write": {"text"},
    "run": set[str](),
    "patch": {"merge", "api_version"},
    "annotate": {"annotations", "remove_annotations", "api_version"},
    "http": {"method", "body", "headers"},
    "backend": {"arguments", "tell"},
    "environment": set[str](),
}
"""The kinds of actions, each with the keys that it may have, too."""


def _merge(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError("must be a table, or a JSON object as text") from None
    if not isinstance(value, dict):
        raise ValueError("must be a table, or a JSON object as text")
    return value


_KINDS = {one.kind: one for one in (*OTHER_KINDS, *KINDS)}


def _object(value: Any) -> str:
    kind, *names = str(value).split("/")
    namespaced = _KINDS[kind].namespaced if kind in _KINDS else len(names) == _BOTH
    if not kind or len(names) != 1 + namespaced or not all(names):
        raise ValueError(f"must be KIND/NAME such as Node/{{node_name}}, or KIND/NAMESPACE/NAME, got {value!r}")
    return str(value)


_BOTH = 2  # namespace and name


ObjectName = Annotated[StrictStr, BeforeValidator(_object)]
Merge = Annotated[
    dict[str, Any],
    BeforeValidator(_merge),
    WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "string"}]}),
]


class ActionSection(Section):
    """What a fault adapter does: one of create, remove, write, run, patch, annotate, http, backend and environment."""

    create: Text | None = None
    """Create this file, which must not exist."""
    remove: Text | None = None
    """Remove this file."""
    write: Text | None = None
    """Replace the content of this file."""
    text: StrictStr = ""
    """Content of the file."""
    run: tuple[Text, ...] | None = None
    """Run this program with its arguments, without a shell."""
    patch: ObjectName | None = None
    """Merge fields into this object of the API server: KIND/NAME or KIND/NAMESPACE/NAME."""
    merge: Merge = Field(default_factory=dict)
    """The fields, as a JSON merge patch: a table, or JSON text, in which null removes a field."""
    api_version: StrictStr = ""
    """The apiVersion of the object if it is a custom resource."""
    annotate: ObjectName | None = None
    """Set annotations of this object."""
    annotations: dict[Text, StrictStr] = Field(default_factory=dict)
    """The annotations."""
    remove_annotations: tuple[Text, ...] = ()
    """The annotations to remove."""
    http: Text | None = None
    """Send a request to this URL."""
    method: Text = "POST"
    """Method of the request."""
    body: StrictStr = ""
    """Body of the request."""
    headers: dict[Text, StrictStr] = Field(default_factory=dict)
    """Headers of the request."""
    backend: Text | None = None
    """Send a line to this scripted backend: a Python file that replaces hardware or a daemon. The path is relative to
    the profile."""
    arguments: tuple[StrictStr, ...] = ()
    """Arguments of the backend."""
    tell: Text | None = None
    """The line that the backend receives; `break DEVICE`, `change DEVICE` or `heal DEVICE` by default."""
    environment: dict[Variable, StrictStr] | None = None
    """Start the driver again with these variables."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> "ActionSection":
        kinds = [name for name in _MORE if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise ValueError(f"set exactly one of {', '.join(_MORE)}")
        if more := self.model_fields_set - {kinds[0], *_MORE[kinds[0]]}:
            names = ", ".join(sorted(name.replace("_", "-") for name in more))
            raise ValueError(f"{kinds[0]} cannot have {names}")
        kind = (self.patch or self.annotate or "").partition("/")[0]
        if kind and kind not in _KINDS and not self.api_version:
            raise ValueError(f"unknown kind {kind!r}; a custom resource needs api-version; {near(kind, _KINDS)}")
        if self.run is not None and not self.run:
            raise ValueError("run needs a program")
        return self

    def action(self, folder: Path, verb: str) -> Action:
        """The action. `folder` has the scripts; a backend receives `verb` and the device by default."""
        for name, file in (("create", CreateFile), ("write", WriteFile)):
            if path := getattr(self, name):
                made: Action = file(path, self.text)
                return made
        if self.remove:
            return RemoveFile(self.remove)
        if self.run:
            return RunCommand(self.run)
        if self.patch or self.annotate:
            return self._patch()
        if self.http:
            return CallHttp(self.http, self.method, self.body, self.headers)
        if self.backend:
            return TellBackend(folder / self.backend, self.arguments, self.tell or f"{verb} {{device}}")
        return SetEnvironment(self.environment or {})

    def _patch(self) -> Action:
        kind, *names = (self.patch or self.annotate or "").split("/")
        merge = self.merge
        if self.annotate:
            removed: dict[str, str | None] = dict.fromkeys(self.remove_annotations)
            merge = {"metadata": {"annotations": {**self.annotations, **removed}}}
        return PatchObject(kind, names[-1], "".join(names[:-1]), merge, self.api_version)


def _heal(value: Any) -> Any:
    if isinstance(value, str) and value not in ("restart", "none"):
        raise ValueError(f'must be "restart", "none" or a table such as {{ remove = "FILE" }}, got {value!r}')
    return value


class FaultSection(Section):
    """[[fault]]: how drahealth breaks and heals a device, and what the driver must report."""

    name: Text = Field(examples=["unplugged"])
    """Name of the fault in the report."""
    device: StrictStr = ""
    """Name of the device, or POOL/NAME. Default: a device that is first neither in the ResourceSlices nor in the
    report, if there is one."""
    break_: ActionSection = Field(alias="break", examples=[{"write": "{driver_dir}/health/{device}", "text": "broken"}])
    """What breaks the device. All texts can have {device} and the placeholders of the driver."""
    change: ActionSection | None = Field(
        default=None, examples=[{"write": "{driver_dir}/health/{device}", "text": "another cause"}]
    )
    """What changes the cause while the device is broken. The driver must then report another message or health."""
    heal: Annotated[ActionSection | Literal["restart", "none"], BeforeValidator(_heal)] = Field(
        examples=[{"remove": "{driver_dir}/health/{device}"}]
    )
    """What heals the device. restart: drahealth starts the driver again. none: the device stays broken."""
    health: Literal["Unhealthy", "Unknown"] = "Unhealthy"
    """The health that the driver must report for the broken device."""
    settle: Seconds = Field(default=5.0, examples=["5s"])
    """Time within which the driver must report the effect of an action, from the end of the action."""
    limit: Seconds = Field(default=ACTION_LIMIT, examples=["10s"])
    """Longest time of an action."""
    grade: Literal["asked", "forced"] | None = Field(default=None, examples=["forced"])
    """asked: drahealth asks the driver to report a fault; forced: the action works outside the driver; default: depends
    on the action."""
    on_error: Literal["NOT_TESTED", "FAIL"] = "NOT_TESTED"
    """Verdict if an action fails or takes too long."""
    on_no_effect: Literal["NOT_TESTED", "FAIL"] = "FAIL"
    """Verdict if the driver does not report the break."""

    @property
    def starts_the_driver(self) -> bool:
        """Whether drahealth starts the driver again to break or to heal the device."""
        actions = (self.break_, self.change, self.heal)
        return self.heal == "restart" or any(
            isinstance(one, ActionSection) and one.environment is not None for one in actions
        )

    @property
    def actions(self) -> dict[str, ActionSection]:
        """Its actions by their keys in the file."""
        found = {"break": self.break_, "change": self.change, "heal": self.heal}
        return {key: one for key, one in found.items() if isinstance(one, ActionSection)}

    def fault(self, folder: Path) -> Fault:
        """The fault. Paths of scripts are relative to the folder."""
        heals: Heals = self.heal if isinstance(self.heal, str) else self.heal.action(folder, "heal")
        return Fault(
            name=self.name,
            breaks=self.break_.action(folder, "break"),
            changes=self.change.action(folder, "change") if self.change else None,
            heals=heals,
            device=self.device,
            health=Health(self.health),
            settle=self.settle,
            limit=self.limit,
            grade=self.grade or "",
            on_error=self.on_error,
            on_no_effect=self.on_no_effect,
        )


# What a driver profile may say (`driver-profile/v1`), section by section; `file` checks the sections together.

FORMAT: Literal["driver-profile/v1"] = "driver-profile/v1"


class RunningDriver(Section):
    """A driver that is already running."""

    registry_dir: Text | None = None
    """Directory with its registration socket."""
    socket: Text | None = None
    """Its registration socket."""
    kubeconfig: Text | None = None
    """Access to its API server, for claims and ResourceSlices."""
    node_name: StrictStr = ""
    """Name of its node; default: the name of this host."""
    cdi_dirs: tuple[Text, ...] = ()
    """Its CDI directories; default: /etc/cdi and /var/run/cdi."""

    @model_validator(mode="after")
    def _is_one_place(self) -> "RunningDriver":
        if (self.registry_dir is None) == (self.socket is None):
            raise ValueError("set either registry-dir or socket")
        return self


class ClusterSection(Section):
    """A cluster in which the Pod of the driver runs, and the node of the Pod."""

    kubeconfig: Text
    """Access to the cluster. drahealth creates the objects of `pod` in this cluster, and deletes them at the end."""
    node: Text
    """Name of the node."""
    root: Text = "/"
    """Where the root directory of the node is on this machine; / on the node itself."""
    kubelet_dir: Text = "/var/lib/kubelet"
    """The root directory of the kubelet, on the node."""
    limit: Seconds = START_LIMIT
    """Longest time until the Pod is Ready."""


class DriverSection(Section):
    """[driver]: how to start the driver, or where it runs."""

    kind: Literal["dra", "device-plugin"] = "dra"
    """A DRA driver, or a device plugin."""
    name: DriverName = Field(default="", examples=["gpu.example.com"])
    """The name of the driver. {driver_dir} has this name, too."""
    command: tuple[Text, ...] = Field(default=(), examples=[["./my-driver", "--registry={registry_dir}"]])
    """Program and arguments, with placeholders."""
    pod: Text | None = Field(default=None, examples=["driver.yaml"])
    """YAML file with the Pod, DaemonSet, Deployment, StatefulSet or Job of the driver. drahealth takes the arguments,
    variables and volumes from its container, and also the command if `command` is missing."""
    container: StrictStr = ""
    """Name of the container in the Pod; default: the first one."""
    cluster: ClusterSection | None = Field(
        default=None, examples=[{"kubeconfig": "~/.kube/config", "node": "kind-control-plane", "root": "/mnt/node"}]
    )
    """The cluster in which the Pod runs. By default drahealth runs the command of the container on this machine."""
    running: RunningDriver | None = Field(
        default=None, examples=[{"registry-dir": "/var/lib/kubelet/plugins_registry"}]
    )
    """A driver that is already running: its directories, node and API server."""
    environment: dict[Variable, StrictStr] = Field(default={}, examples=[{"LOG_LEVEL": "debug"}])
    """Variables for the driver, with placeholders."""
    working_directory: Text = "."
    """Directory in which the driver starts, relative to the file."""
    grace: Seconds = Field(default=GRACE, examples=[f"{GRACE:g}s"])
    """Longest time from SIGTERM to the exit of the driver."""

    @model_validator(mode="after")
    def _starts_or_runs(self) -> "DriverSection":
        if bool(self.command or self.pod) == bool(self.running):
            raise ValueError("set either command, pod or running")
        if self.container and not self.pod:
            raise ValueError("container needs pod")
        if self.kind == "device-plugin" and (self.running or self.name):
            raise ValueError("a device plugin needs a command or a pod, and cannot have running or name")
        if self.cluster and not self.pod:
            raise ValueError("cluster needs pod")
        if self.cluster and self.kind == "device-plugin":
            raise ValueError("a device plugin cannot have cluster: it is registered with the kubelet of its node")
        given = self.model_fields_set & {"command", "environment", "working_directory", "grace"}
        if self.cluster and given:
            names = ", ".join(sorted(name.replace("_", "-") for name in given))
            raise ValueError(f"a driver in a cluster cannot have {names}; set it in the manifest")
        started = self.model_fields_set & {"environment", "working_directory", "grace", "name"}
        if self.running and started:
            names = ", ".join(sorted(name.replace("_", "-") for name in started))
            raise ValueError(f"a driver that runs already cannot have {names}")
        return self


class SandboxSection(Section):
    """[sandbox]: namespaces and private directories of each driver process. Without it there is no sandbox."""

    namespaces: tuple[Namespace, ...] = NAMESPACES
    """mount: private directories; network: loopback only; pid: all
    processes end with the driver; user: root inside the sandbox."""
    private: tuple[PrivateDirectory, ...] = Field((), examples=[["/run/nri", "/dev"]])
    """Private directories besides /var/lib/kubelet, /var/run/cdi, /run/cdi and /etc/cdi, empty at the start."""

    @model_validator(mode="after")
    def _is_consistent(self) -> "SandboxSection":
        if self.private and "mount" not in self.namespaces:
            raise ValueError('private directories need the namespace "mount"')
        return self


class HelperSection(Section):
    """[[helper]]: a program that the driver connects to. It starts before the driver, in the same sandbox."""

    command: Annotated[
        tuple[Text, ...], Field(min_length=1, examples=[["./vendor-daemon", "--socket={driver_dir}/daemon.sock"]])
    ]
    """Program and arguments, with placeholders. It must run until drahealth ends it."""
    environment: dict[Variable, StrictStr] = Field(default={})
    """Variables for the helper, with placeholders."""
    ready: StrictStr = Field("", examples=["{driver_dir}/daemon.sock"])
    """File, or socket with a listener, that exists when the helper is ready, with placeholders."""
    ready_command: tuple[Text, ...] = Field((), examples=[["./vendor-daemon", "--ping"]])
    """Command that succeeds when the helper is ready, with placeholders. It is repeated until then."""
    limit: Seconds = Field(READY_LIMIT, examples=["30s"])
    """Longest time until the helper is ready."""

    @model_validator(mode="after")
    def _is_ready_in_one_way(self) -> "HelperSection":
        if self.ready and self.ready_command:
            raise ValueError("set either ready or ready-command")
        return self


class ApiServerSection(Section):
    """[api-server]: the API server of a driver that drahealth starts."""

    kind: Literal["none", "memory", "real"] = "memory"
    """none: no API server; memory: drahealth's own API server; real: kube-apiserver and etcd."""
    kubeconfig: Text | None = Field(default=None, examples=["~/.kube/config"])
    """Instead of kind: the kubeconfig of a cluster. drahealth creates objects there, and deletes them at the end."""
    kubernetes: Release | None = Field(default=None, examples=["1.37.1"])
    """Release of a real API server, such as 1.37.1."""
    objects: tuple[Text, ...] = Field(default=(), examples=[["objects.yaml"]])
    """YAML files with objects that exist before the driver starts, with placeholders; relative to this file."""

    @model_validator(mode="after")
    def _is_consistent(self) -> "ApiServerSection":
        if self.kubeconfig and "kind" in self.model_fields_set:
            raise ValueError("set either kind or kubeconfig")
        if self.kubernetes and self.kind != "real":
            raise ValueError('kubernetes is only for kind = "real"')
        if self.objects and self.kind == "none":
            raise ValueError('objects need an API server: kind = "memory" or "real"')
        return self


class ClaimSection(Section):
    """[claim]: the claims that the driver prepares."""

    devices: DeviceCount = 1
    """Number of devices in each claim, or all: all devices that the driver publishes on its node."""
    manifests: tuple[Text, ...] = Field(default=(), examples=[["demo.yaml"]])
    """YAML files with ResourceClaims or ResourceClaimTemplates, and their DeviceClasses; relative to this file."""

    @model_validator(mode="after")
    def _is_one_form(self) -> "ClaimSection":
        if self.manifests and "devices" in self.model_fields_set:
            raise ValueError("set either devices or manifests")
        return self


class AbilitiesSection(Section):
    """[abilities]: what the driver can do."""

    several_processes: StrictBool = True
    """Whether several processes of the driver can run at the same time on one machine."""
    rolling_update: StrictBool = False
    """Whether two instances of the driver can serve side by side, with different sockets. The second instance has
    another {pod_uid} and {instance}."""
    faults: StrictBool = False
    """Whether drahealth can cause faults in the devices. If true, a driver whose profile has no [[fault]] is not
    certified."""


class DriverProfile(Section):
    """The content of a driver profile."""

    format: Literal["driver-profile/v1"]
    driver: DriverSection
    sandbox: SandboxSection | None = None
    helper: tuple[HelperSection, ...] = ()
    api_server: ApiServerSection = ApiServerSection()
    claim: ClaimSection = ClaimSection()
    fault: tuple[FaultSection, ...] = ()
    abilities: AbilitiesSection = AbilitiesSection()

    @field_validator("fault", "helper", mode="before")
    @classmethod
    def _is_a_list(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, dict):
            raise ValueError(f"write [[{info.field_name}]] with double brackets: a driver profile can have several")
        return value

    @model_validator(mode="after")
    def _faults_fit(self) -> "DriverProfile":
        names = [one.name for one in self.fault]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two faults are named {twice}")
        starting = next((one.name for one in self.fault if one.starts_the_driver), None)
        if self.driver.running and starting:
            raise ValueError(f"fault {starting} starts the driver again, but drahealth does not start this driver")
        environment = (one.name for one in self.fault for action in one.actions.values() if action.environment)
        if self.driver.cluster and (name := next(environment, None)):
            raise ValueError(f"fault {name} has environment, which drahealth cannot change in a cluster")
        return self

    @model_validator(mode="after")
    def _instances_fit(self) -> "DriverProfile":
        if not self.abilities.rolling_update:
            return self
        if not self.driver.command or self.driver.kind != "dra":
            raise ValueError("rolling-update is for a DRA driver that drahealth starts")
        if not self.abilities.several_processes:
            raise ValueError("rolling-update needs several-processes = true: two instances run at the same time")
        if not placeholders_in([*self.driver.command, *self.driver.environment.values()]) & {"pod_uid", "instance"}:
            raise ValueError(
                "rolling-update needs {pod_uid} or {instance} in command or environment: the instances must use "
                "different sockets"
            )
        return self

    @model_validator(mode="after")
    def _fits_the_driver(self) -> "DriverProfile":
        if self.driver.running and self.api_server.model_fields_set:
            raise ValueError("[api-server] is for a driver that drahealth starts; set kubeconfig of driver.running")
        if self.driver.pod and self.sandbox and "mount" not in self.sandbox.namespaces:
            raise ValueError('the volumes of a Pod need the namespace "mount"')
        if self.driver.running and (self.sandbox or self.helper):
            raise ValueError("[sandbox] and [[helper]] are for a driver that drahealth starts")
        if self.driver.cluster and (self.sandbox or self.helper or self.api_server.model_fields_set):
            raise ValueError("[sandbox], [[helper]] and [api-server] are for a driver that runs on this machine")
        return self
