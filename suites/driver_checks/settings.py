"""What `drahealth check` is asked to do."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from drahealth.suites.driver_checks.declared_faults import Fault, TellBackend, lasting, strings
from drahealth.suites.driver_checks.experiment import Experiment
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.sandbox.declared import Helper, Sandbox
from drahealth.suites.driver_checks.subject.driver_pod import InCluster
from drahealth.suites.driver_checks.subject.places import check_placeholders
from drahealth.suites.driver_checks.verdicts import Level, SubjectKind, includes
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.api_servers.options import ApiServerKind

DriverApiServer = ApiServerKind | Literal["none", "kubeconfig"]
"""The API server of a driver that is started; none: the driver gets no kubeconfig; kubeconfig: that of a cluster."""

NOT_ASKED = "not needed for the requirements of this run"
"""Why an experiment does not run in a partial run."""
NO_FAULTS = "the driver profile declares no fault, so the health of no device was changed"
"""Why experiments with faults do not run: their requirements are STATIC."""
NO_BACKEND = "no fault of the driver profile has a scripted backend"
"""Why the experiment with a scripted backend does not run."""
FAULTS_MISSING = "the driver profile says that faults can be caused, and declares none"
"""Why experiments with faults do not run: their requirements are NOT_TESTED."""
NO_ROLLING_UPDATE = "the driver profile does not have rolling-update = true in [abilities]"
"""Why no second instance of the driver runs."""
IN_A_POD = "the driver runs in a Pod of a cluster, with the kubelet and the API server of the cluster"
"""Why experiments that need more control of the driver do not run."""

CDI_DIRS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Directories of CDI specs of a node. Source: Container Device Interface, SPEC.md, "Defaults"."""
SLOWNESS = 4.0
"""An experiment is ended after this many times its usual duration, and half a minute."""
GRACE = 10.0
"""Seconds from SIGTERM to SIGKILL by default."""
DEADLINE = 180.0
"""Seconds of the longest run by default."""
_BESIDE_WATCH = 55.0
"""Seconds before the deadline at which the experiment `watch` ends at the latest: time for the other experiments."""
LONGEST_WATCH = DEADLINE - _BESIDE_WATCH
"""Seconds of the longest watch by default: enough for a timeout of two minutes."""


@dataclass(frozen=True)
class Settings:
    """One run.

    Either `command` starts the driver, or `in_cluster` does, or it runs already, in `registry_dir` or at `socket`.
    """

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for the driver, which may have placeholders."""
    driver_name: str = ""
    registry_dir: Path | None = None
    socket: Path | None = None
    """The registration socket of a running driver."""
    cdi_dirs: tuple[Path, ...] = CDI_DIRS
    """CDI directories of a running driver."""
    node_name: str = ""
    """Node of a running driver; empty for the Node with the name of this host, if there is one."""
    kubeconfig: Path | None = None
    """API server of a running driver, or of one `in_cluster`; with `api_server="kubeconfig"`, of one that `command`
    starts."""
    in_cluster: InCluster | None = None
    """The Pod of the driver in the cluster of `kubeconfig`."""
    api_server: DriverApiServer = "memory"
    """API server of a driver that is started."""
    kubernetes: str | None = None
    """Release of a real API server."""
    claim: Sequence[Mapping[str, Any]] = ()
    claim_file: Path | None = None
    """The file of these objects, for the command that repeats a part of the run."""
    sandbox: Sandbox | None = None
    """The sandbox of each driver process; None for none."""
    helpers: tuple[Helper, ...] = ()
    """Programs that each driver process dials, in the order in which they start."""
    sequential: bool = False
    """Run one process of the driver at a time."""
    deadline: float = DEADLINE
    """Seconds for the whole run."""
    only: frozenset[str] = frozenset()
    """Names of the experiments to run; empty for all."""
    evidence: Path | None = None
    redact: bool = True
    working_directory: Path | None = None
    """Of the driver's process; None for that of drahealth."""
    grace: float = GRACE
    """Seconds from SIGTERM to the exit of the driver."""
    objects: Sequence[Mapping[str, Any]] = ()
    """Objects in each API server before the driver starts; their texts may have placeholders."""
    claim_devices: int | Literal["all"] = 1
    """Devices of a claim of drahealth; all: those that the driver publishes on its node."""
    faults: tuple[Fault, ...] = ()
    """What drahealth can break in devices."""
    can_break: bool = False
    """Whether the driver profile says that faults can be caused: then a run without faults is not complete."""
    rolling_update: bool = False
    """Whether two instances of the driver can serve side by side, with the same directories."""
    level: Level = "check"
    """How much of the ledger the evidence is judged by."""
    subject: SubjectKind = "dra-driver"
    """What the command starts."""
    profile: str = ""
    """Name of the driver profile; empty for a run without one."""
    profile_sha256: str = ""
    """Digest of the driver profile."""

    def __post_init__(self) -> None:
        """Raises ConfigurationError for contradictory settings."""
        running = self.registry_dir or self.socket or self.in_cluster
        if bool(self.command) == bool(running):
            raise ConfigurationError(
                "a command and a running driver exclude each other" if running else "missing driver",
                "use `drahealth check -- COMMAND...`, `drahealth check SOCKET` or `drahealth check --registry-dir DIR`",
            )
        if self.command and self.kubeconfig and self.api_server != "kubeconfig":
            raise ConfigurationError(
                "--kubeconfig is only for a running driver", "use {kubeconfig} in the driver's command line"
            )
        if self.command and self.node_name:
            raise ConfigurationError(
                "--node-name is only for a running driver", "use {node_name} in the driver's command line"
            )
        named = self.driver_name and not self.in_cluster
        if not self.command and (self.environment or named or self.api_server != "memory"):
            raise ConfigurationError(
                "--env, --driver-name and --api-server are for a driver that drahealth starts",
                "leave them out for a driver that is already running",
            )
        if self.subject == "device-plugin" and not self.command:
            raise ConfigurationError(
                "drahealth cannot check a device plugin that already runs",
                "use `drahealth check --device-plugin -- COMMAND...`, which starts it",
            )
        if self.subject == "device-plugin" and (self.claim or self.driver_name):
            raise ConfigurationError("--claim and --driver-name are for DRA drivers", "leave them out")
        if not (math.isfinite(self.deadline) and self.deadline > 0):
            raise ConfigurationError(
                f"--deadline must be a number of seconds above 0, got {self.deadline:g}", "the default is 180"
            )
        if not self.command and (self.sandbox or self.helpers):
            raise ConfigurationError(
                "a sandbox and helpers are only for a driver that drahealth starts",
                "leave them out for a driver that is already running",
            )
        check_placeholders([*self.command, *self.environment.values()])
        actions = (strings(one) for fault in self.faults for one in fault.actions)
        check_placeholders([word for words in actions for word in words], "device")

    @property
    def starts(self) -> bool:
        """Whether drahealth starts the driver."""
        return bool(self.command or self.in_cluster)

    @property
    def api_server_kind(self) -> str:
        """As the header of the evidence has it."""
        if self.command:
            return self.api_server
        return "kubeconfig" if self.kubeconfig else "none"

    def seconds_of(self, experiment: Experiment) -> float:
        """The usual duration of an experiment, with what the faults take."""
        each = experiment.seconds_per_fault or 0.0
        return experiment.seconds + sum(fault.seconds + each for fault in self.faults_of(experiment))

    @property
    def longest_watch(self) -> float:
        """Seconds after which the experiment `watch` can end, even if a timeout of a device is not over."""
        return self.deadline - _BESIDE_WATCH

    def limit_of(self, experiment: Experiment) -> float:
        """Seconds after which an experiment is ended, besides what its driver needs to start."""
        usual = self.seconds_of(experiment) * SLOWNESS + 30
        return max(usual, self.longest_watch + 30) if experiment.lasts_as_watch else usual

    @property
    def start_seconds(self) -> float:
        """The longest time from the start of the driver until it must run, besides the time of the experiments."""
        return self.in_cluster.limit + self.grace if self.in_cluster else 0.0

    def faults_of(self, experiment: Experiment) -> tuple[Fault, ...]:
        """The faults that an experiment causes."""
        if "fault" not in experiment.needs:
            return ()
        if experiment.seconds_per_fault is None:
            return self.faults
        return lasting(self.faults, experiment.seconds_per_fault)

    def excluded(self, experiment: Experiment) -> str:
        """Why an experiment cannot run with these settings; empty if it can."""
        if self.only and experiment.name not in self.only:
            return NOT_ASKED
        if "start" in experiment.needs and not self.starts:
            return "the driver was not started by drahealth"
        if self.in_cluster and "start" in experiment.needs and not experiment.in_a_pod:
            return IN_A_POD
        if "gateway" in experiment.needs and (not self.command or self.api_server == "none"):
            return "drahealth does not control the API server of the driver"
        if "rolling-update" in experiment.needs and not self.rolling_update:
            return NO_ROLLING_UPDATE
        if "fault" in experiment.needs and not self.faults:
            return FAULTS_MISSING if self.can_break else NO_FAULTS
        actions = (action for fault in self.faults for action in fault.actions)
        if "backend" in experiment.needs and not any(isinstance(one, TellBackend) for one in actions):
            return NO_BACKEND
        if experiment.needs & {"api-server", "claim"} and self.api_server_kind == "none":
            return "there is no API server; pass --kubeconfig" if not self.command else "there is no API server"
        return ""


def plan(settings: Settings) -> list[tuple[Experiment, str]]:
    """The experiments of the level on such a subject, each with the reason why it does not run; empty if it runs."""
    all_ = EXPERIMENTS.values()
    mine = (one for one in all_ if one.subject == settings.subject and includes(settings.level, one.scope))
    return [(experiment, settings.excluded(experiment)) for experiment in mine]
