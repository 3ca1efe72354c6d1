"""An experiment: what it does, which driver process it needs, and how it ends early."""

from dataclasses import dataclass
from typing import Literal

from drahealth.suites.driver_checks.verdicts import Level, SubjectKind

# How an experiment ends early.


class NotApplicable(Exception):
    """The experiment does not apply to this driver; the message is the observation that proves it."""


class Unavailable(Exception):
    """This machine cannot run the experiment; the message says why, and what to do. An error of the harness."""


class Incomplete(Exception):
    """The driver made it impossible to finish the experiment; the message says how."""


# Why experiments do not run.

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

# An experiment as data: what it does, which driver process it needs, and what it costs.

Process = Literal[
    "main",
    "refused",
    "restarted",
    "cut-off",
    "pod",
    "kubelet",
    "broken",
    "pod-broken",
    "kubelet-broken",
    "disturbed",
    "unwatched",
    "interrupted",
    "idle",
    "updated",
]
"""Label of a driver process. Each has its own directories, API server objects and node name; all run side by side."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment."""

    name: str
    sentence: str
    """What it does."""
    process: Process
    seconds: float
    """The usual duration. Experiments of different processes run side by side."""
    needs: frozenset[
        Literal["start", "claim", "api-server", "gateway", "health", "fault", "backend", "rolling-update"]
    ] = frozenset()
    """`start`: drahealth starts the driver. `claim`: the driver publishes a device that can be allocated, or the user
    gives a claim. `api-server`: the driver uses an API server that drahealth knows, and `gateway`: one that drahealth
    controls. `health`: it serves a health API. `fault`: the driver profile has a fault, and `backend`: one
    with a scripted backend. `rolling-update`: it says that two instances of the driver can serve side by side."""
    requires: str = ""
    """The experiment that must be done before; if it is not, this one is incomplete."""
    after: tuple[str, ...] = ()
    """The experiments that must have ended before, in any way."""
    ends_driver: bool = False
    """Whether the driver may end during the experiment."""
    subject: SubjectKind = "dra-driver"
    """What it is done to."""
    scope: Level = "check"
    """The smallest level that runs it."""
    in_a_pod: bool = False
    """Whether it can start or end a driver whose Pod drahealth creates in a cluster. Only for those that need
    `start`."""
    lasts_as_watch: bool = False
    """Whether it can last as long as `watch`, which depends on the timeouts of the devices."""
    seconds_per_fault: float | None = None
    """What it needs for each fault that lasts, besides the times of the fault; None if it causes all faults."""
