"""What a driver profile may say (`driver-profile/v1`), section by section.

A profile is all that a user says of a driver: in a file for `drahealth certify`, with flags for `drahealth check`.
"""

import hashlib
import re
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr, ValidationInfo, field_validator, model_validator

from drahealth.suites.driver_checks.profile.faults import Fault, SetEnvironment
from drahealth.suites.driver_checks.profile.values import (
    DeviceCount,
    DriverName,
    FilePath,
    PrivateDirectory,
    Release,
    Seconds,
    Section,
    Text,
    Variables,
)
from drahealth.suites.driver_checks.subject.places import placeholders_in
from drahealth.suites.driver_checks.subject.sandbox import NAMESPACES
from drahealth.suites.driver_checks.verdicts import SubjectKind
from drahealth.suites.processes.mounts import Namespace

FORMAT: Literal["driver-profile/v1"] = "driver-profile/v1"
GRACE = 10.0
"""Seconds from SIGTERM to SIGKILL by default."""
CDI_DIRS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Directories of CDI specs of a node. Source: Container Device Interface, SPEC.md, "Defaults"."""


class RunningDriver(Section):
    """A driver that is already running."""

    registry_dir: FilePath | None = None
    """Directory with its registration socket."""
    socket: FilePath | None = None
    """Its registration socket."""
    kubeconfig: FilePath | None = None
    """Access to its API server, for claims and ResourceSlices."""
    node_name: StrictStr = ""
    """Name of its node; default: the name of this host."""
    cdi_dirs: tuple[FilePath, ...] = CDI_DIRS
    """Its CDI directories; default: /etc/cdi and /var/run/cdi."""

    @model_validator(mode="after")
    def _is_one_place(self) -> "RunningDriver":
        if (self.registry_dir is None) == (self.socket is None):
            raise ValueError("set either registry-dir or socket")
        return self


class ClusterSection(Section):
    """A cluster in which the Pod of the driver runs, and the node of the Pod."""

    kubeconfig: FilePath
    """Access to the cluster. drahealth creates the objects of `pod` in this cluster, and deletes them at the end."""
    node: Text
    """Name of the node."""
    root: FilePath = Path("/")
    """Where the root directory of the node is on this machine; / on the node itself."""
    kubelet_dir: Text = "/var/lib/kubelet"
    """The root directory of the kubelet, on the node."""
    limit: Seconds = 60.0
    """Longest time until the Pod is Ready."""


_STARTERS = re.compile(
    r"python[\d.]*|pypy[\d.]*|sh|bash|dash|env|sudo|nsenter|unshare|nice|timeout|node|java|perl|ruby|docker|podman"
)
"""Programs that start others: their digest does not identify a driver."""
_IMAGE = re.compile(r"(?P<name>[^@\s]+)@sha256:(?P<digest>[0-9a-f]{64})")


class DriverSection(Section):
    """[driver]: how to start the driver, or where it runs."""

    kind: Literal["dra", "device-plugin"] = "dra"
    """A DRA driver, or a device plugin."""
    name: DriverName = Field(default="", examples=["gpu.example.com"])
    """The name of the driver. {driver_dir} has this name, too."""
    command: tuple[StrictStr, ...] = Field(default=(), examples=[["./my-driver", "--registry={registry_dir}"]])
    """Program and arguments, with placeholders."""
    pod: FilePath | None = Field(default=None, examples=["driver.yaml"])
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
    artifact: StrictStr = Field(default="", examples=["./my-driver"])
    """What a certificate is about: the file of the driver, relative to the file, or its image with a digest. By default
    the program of `command`. Set it if the command starts the driver through another program, such as a shell."""
    environment: Variables = Field(default={}, examples=[{"LOG_LEVEL": "debug"}])
    """Variables for the driver, with placeholders."""
    working_directory: FilePath = Field(default=Path(), validate_default=True)
    """Directory in which the driver starts, relative to the file."""
    grace: Seconds = Field(default=GRACE, examples=[f"{GRACE:g}s"])
    """Longest time from SIGTERM to the exit of the driver."""

    @model_validator(mode="after")
    def _starts_or_runs(self) -> "DriverSection":
        if bool(self.command or self.pod) == bool(self.running):
            raise ValueError("set either command, pod or running")
        if self.command and not self.command[0]:
            raise ValueError("the first text of command must be a program")
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

    @property
    def image_digest(self) -> str:
        """The SHA-256 digest of the image that `artifact` names; empty if it names none."""
        image = _IMAGE.fullmatch(self.artifact)
        return image["digest"] if image else ""

    def identified(self) -> tuple[str, str]:
        """The name and the SHA-256 digest of the driver: of its file, or of its image; empty texts if unknown."""
        if image := _IMAGE.fullmatch(self.artifact):
            return image["name"], image["digest"]
        program = self.artifact or (self.command[0] if self.command else "")
        if not self.artifact and _STARTERS.fullmatch(Path(program).name):
            return "", ""
        is_path = "/" in program or self.artifact
        path = self.working_directory / program if is_path else Path(shutil.which(program) or "")
        try:
            with path.open("rb") as file:
                if not self.artifact and file.read(2) == b"#!":
                    return "", ""  # a script starts the driver, or is one: which files belong to it is unknown
                file.seek(0)
                return path.name, hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return "", ""


class SandboxSection(Section):
    """[sandbox]: namespaces and private directories of each driver process. Without it there is no sandbox."""

    namespaces: tuple[Namespace, ...] = NAMESPACES
    """mount: private directories; network: loopback only; pid: all
    processes end with the driver; user: root inside the sandbox."""
    private: tuple[PrivateDirectory, ...] = Field(default=(), examples=[["/run/nri", "/dev"]])
    """Private directories besides /var/lib/kubelet, /var/run/cdi, /run/cdi and /etc/cdi, empty at the start."""

    @model_validator(mode="after")
    def _is_consistent(self) -> "SandboxSection":
        if self.private and "mount" not in self.namespaces:
            raise ValueError('private directories need the namespace "mount"')
        return self


class Helper(Section):
    """[[helper]]: a program that the driver connects to. It starts before the driver, in the same sandbox."""

    command: Annotated[
        tuple[Text, ...], Field(min_length=1, examples=[["./vendor-daemon", "--socket={driver_dir}/daemon.sock"]])
    ]
    """Program and arguments, with placeholders. It must run until drahealth ends it."""
    environment: Variables = Field(default={})
    """Variables for the helper, with placeholders."""
    ready: StrictStr = Field(default="", examples=["{driver_dir}/daemon.sock"])
    """File, or socket with a listener, that exists when the helper is ready, with placeholders."""
    ready_command: tuple[Text, ...] = Field(default=(), examples=[["./vendor-daemon", "--ping"]])
    """Command that succeeds when the helper is ready, with placeholders. It is repeated until then."""
    limit: Seconds = Field(default=30.0, examples=["30s"])
    """Longest time until the helper is ready."""

    @model_validator(mode="after")
    def _is_ready_in_one_way(self) -> "Helper":
        if self.ready and self.ready_command:
            raise ValueError("set either ready or ready-command")
        return self

    @property
    def name(self) -> str:
        """The name of its program, for messages."""
        return Path(self.command[0]).name


class ApiServerSection(Section):
    """[api-server]: the API server of a driver that drahealth starts."""

    kind: Literal["none", "memory", "real"] = "memory"
    """none: no API server; memory: drahealth's own API server; real: kube-apiserver and etcd."""
    kubeconfig: FilePath | None = Field(default=None, examples=["~/.kube/config"])
    """Instead of kind: the kubeconfig of a cluster. drahealth creates objects there, and deletes them at the end."""
    kubernetes: Release | None = Field(default=None, examples=["1.37.2"])
    """Release of a real API server, such as 1.37.2."""
    objects: tuple[FilePath, ...] = Field(default=(), examples=[["objects.yaml"]])
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
    manifests: tuple[FilePath, ...] = Field(default=(), examples=[["demo.yaml"]])
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
    helper: tuple[Helper, ...] = ()
    api_server: ApiServerSection = ApiServerSection()
    claim: ClaimSection = ClaimSection()
    fault: tuple[Fault, ...] = ()
    abilities: AbilitiesSection = AbilitiesSection()

    @property
    def subject(self) -> SubjectKind:
        """What the profile describes."""
        return "device-plugin" if self.driver.kind == "device-plugin" else "dra-driver"

    @property
    def kubeconfig(self) -> Path | None:
        """Access to the cluster of the user: the API server of a driver that drahealth starts, or of a running one."""
        inside = self.driver.cluster or self.driver.running or self.api_server
        return inside.kubeconfig

    @property
    def api_server_kind(self) -> Literal["none", "memory", "real", "kubeconfig"]:
        """The API server of the driver, as the header of the evidence has it."""
        if self.kubeconfig:
            return "kubeconfig"
        return "none" if self.driver.running else self.api_server.kind

    @property
    def sequential(self) -> bool:
        """Whether one process of the driver runs at a time, or one group of experiments on the driver that runs."""
        one = self.driver.cluster or self.driver.running
        return one is not None or not self.abilities.several_processes

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
        tainted = next((one.name for one in self.fault if one.taint), None)
        if tainted and self.driver.kind == "device-plugin":
            raise ValueError(f"fault {tainted} has a taint, but a device plugin publishes no ResourceSlices")
        starting = next((one.name for one in self.fault if one.restarts), None)
        if self.driver.running and starting:
            raise ValueError(f"fault {starting} starts the driver again, but drahealth does not start this driver")
        environment = (one.name for one in self.fault if any(isinstance(each, SetEnvironment) for each in one.actions))
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
