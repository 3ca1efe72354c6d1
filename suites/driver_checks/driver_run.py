"""One run of `drahealth check` or `certify`: the driver profile, what the profile names, and the plan. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drahealth.fakes.cluster.api import Object
from drahealth.suites.driver_checks import fault_plan
from drahealth.suites.driver_checks.experiments import (
    EXPERIMENTS,
    FAULTS_MISSING,
    IN_A_POD,
    NO_BACKEND,
    NO_FAULTS,
    NO_ROLLING_UPDATE,
    NOT_ASKED,
    Experiment,
)
from drahealth.suites.driver_checks.fault_plan import Target
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.profile.faults import Fault, TellBackend, lasting
from drahealth.suites.driver_checks.profile.model import DriverProfile
from drahealth.suites.driver_checks.subject.driver_pod import InCluster
from drahealth.suites.driver_checks.subject.sandbox import Sandbox, Volume
from drahealth.suites.driver_checks.verdicts import Level, includes
from drahealth.suites.errors import ConfigurationError

SLOWNESS = 4.0
"""An experiment is ended after this many times its usual duration, and half a minute."""
DEADLINE = 180.0
"""Seconds of the longest run by default."""
PLANNED_DEVICES = 4
"""The devices of a driver, for the duration of a plan of faults before the driver has reported its own."""
_BESIDE_WATCH = 55.0
"""Seconds before the deadline at which the experiment `watch` ends at the latest: time for the other experiments.

With the default deadline, `watch` has enough time for a timeout of two minutes.
"""


@dataclass(frozen=True)
class DriverRun:
    """What the user asked. Raises ConfigurationError for an invalid deadline."""

    profile: DriverProfile
    """If the driver starts as its Pod says, with the command and the variables of the Pod."""
    objects: Sequence[Object] = ()
    """Objects in each API server before the driver starts; their texts may have placeholders."""
    claim: Sequence[Object] = ()
    """The user's claims with their DeviceClasses; empty for claims of drahealth."""
    volumes: tuple[Volume, ...] = ()
    """The volumes of the driver's Pod, for a driver that runs on this machine."""
    workload: Object | None = None
    """The object with the driver's Pod, for a cluster; None without one."""
    name: str = ""
    """Name of the file of the profile, without its extension; empty for a profile from flags."""
    sha256: str = ""
    """Digest of the file."""
    level: Level = "check"
    """How much of the ledger the evidence is judged by."""
    deadline: float = DEADLINE
    """Seconds for the whole run."""
    only: frozenset[str] = frozenset()
    """Names of the experiments to run; empty for all."""
    evidence: Path | None = None
    redact: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.deadline) and self.deadline > 0):
            raise ConfigurationError(
                f"--deadline must be a number of seconds above 0, got {self.deadline:g}", "the default is 180"
            )

    @property
    def in_cluster(self) -> InCluster | None:
        """The Pod of the driver in a cluster; None for a driver on this machine."""
        driver = self.profile.driver
        if driver.cluster is None or self.workload is None:
            return None
        return InCluster(self.workload, driver.cluster, driver.container, driver.image_digest)

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox of each driver process; None for none."""
        declared = self.profile.sandbox
        return Sandbox(declared.namespaces, declared.private, self.volumes) if declared else None

    def seconds_of(self, experiment: Experiment) -> float:
        """The usual duration of an experiment, with what the faults take."""
        if experiment.name in fault_plan.PLANS:
            some = [Target(Device("pool", f"device-{number}")) for number in range(PLANNED_DEVICES)]
            space = fault_plan.SPACES[experiment.subject]
            planned = fault_plan.plan(self.profile.fault, some, self.level, space=space).seconds
            once = (
                one.seconds for one in self.profile.fault if experiment.subject == "device-plugin" and not one.lasts
            )
            return experiment.seconds + planned + sum(once)
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
        driver = self.profile.driver
        return driver.cluster.limit + driver.grace if driver.cluster else 0.0

    def faults_of(self, experiment: Experiment) -> tuple[Fault, ...]:
        """The faults that an experiment causes."""
        if "fault" not in experiment.needs:
            return ()
        if experiment.seconds_per_fault is None:
            return self.profile.fault
        return lasting(self.profile.fault, experiment.seconds_per_fault)

    def excluded(self, experiment: Experiment) -> str:
        """Why an experiment cannot run; empty if it can."""
        profile, driver = self.profile, self.profile.driver
        if self.only and experiment.name not in self.only:
            return NOT_ASKED
        if "start" in experiment.needs and driver.running:
            return "the driver was not started by drahealth"
        if driver.cluster and "start" in experiment.needs and not experiment.in_a_pod:
            return IN_A_POD
        if "gateway" in experiment.needs and (not driver.command or profile.api_server_kind == "none"):
            return "drahealth does not control the API server of the driver"
        if "rolling-update" in experiment.needs and not profile.abilities.rolling_update:
            return NO_ROLLING_UPDATE
        if "fault" in experiment.needs and not profile.fault:
            return FAULTS_MISSING if profile.abilities.faults else NO_FAULTS
        actions = (action for fault in profile.fault for action in fault.actions)
        if "backend" in experiment.needs and not any(isinstance(one, TellBackend) for one in actions):
            return NO_BACKEND
        if experiment.needs & {"api-server", "claim"} and profile.api_server_kind == "none":
            return "there is no API server; pass --kubeconfig" if not driver.command else "there is no API server"
        return ""


def check_kubeconfig(profile: DriverProfile) -> None:
    """Raises ConfigurationError for a driver without an API server that is to read a kubeconfig: it could not start."""
    driver = profile.driver
    words = [*driver.command, *driver.environment.values()]
    if profile.api_server_kind == "none" and driver.command and any("{kubeconfig}" in one for one in words):
        raise ConfigurationError(
            "without an API server there is no file {kubeconfig}, which the driver is started with",
            'remove `--api-server none` (`kind = "none"`), or start the driver without {kubeconfig}',
        )


def plan(run: DriverRun) -> list[tuple[Experiment, str]]:
    """The experiments of the level on such a subject, each with the reason why it does not run; empty if it runs."""
    all_ = EXPERIMENTS.values()
    mine = (one for one in all_ if one.subject == run.profile.subject and includes(run.level, one.scope))
    return [(experiment, run.excluded(experiment)) for experiment in mine]


REAL_SERVER = 10.0
"""Seconds until a real API server of a driver process is ready."""


def duration(run: DriverRun) -> float:
    """Seconds that the experiments usually take."""
    by_process: dict[str, list[Experiment]] = {}
    for experiment, excluded in plan(run):
        if not excluded:
            by_process.setdefault(experiment.process, []).append(experiment)
    times = [_seconds(run, experiments) for experiments in by_process.values()]
    one_by_one = run.profile.sequential
    servers = (len(times) if one_by_one else 1) if run.profile.api_server_kind == "real" else 0
    return (sum(times) if one_by_one else max(times, default=0.0)) + servers * REAL_SERVER


def _seconds(run: DriverRun, experiments: Sequence[Experiment]) -> float:
    """The time of one process: experiments wait for those that must be done or have ended before."""
    waiting, ends = {one.name: one for one in experiments}, dict[str, float]()
    while waiting:
        for one in list(waiting.values()):
            before = {one.requires, *one.after}
            if not before & waiting.keys():
                start = max((ends.get(name, 0.0) for name in before), default=0)
                ends[waiting.pop(one.name).name] = start + run.seconds_of(one)
    return max(ends.values(), default=0.0)
