"""The experiments as data: what each does, which driver process it needs, and what it waits for."""

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

# One experiment.

Process = Literal[
    "main",
    "refused",
    "restarted",
    "cut-off",
    "pod",
    "kubelet",
    "broken",
    "planned",
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


# The experiments on device plugins.


def _experiment(
    name: str,
    sentence: str,
    process: Process,
    seconds: float,
    *,
    requires: str = "",
    after: tuple[str, ...] = (),
    ends_driver: bool = False,
) -> Experiment:
    return Experiment(
        name,
        sentence,
        process,
        seconds,
        frozenset({"start"}),
        requires=requires,
        after=after,
        ends_driver=ends_driver,
        subject="device-plugin",
    )


UNKNOWN_DEVICE = "drahealth-no-such-device"
"""An ID that no plugin lists."""

_CALLS = ("allocation", "preferred-allocation", "container-start")

DEVICE_PLUGIN_EXPERIMENTS = (
    _experiment(
        "plugin-registration",
        "Start a kubelet, and accept the registration. The plugin calls Register, or has a registration socket.",
        "main",
        5,
    ),
    _experiment(
        "list-and-watch",
        "Keep a ListAndWatch stream open while other experiments call the device plugin. Then cancel the stream, and "
        "open another stream.",
        "main",
        12,
        requires="plugin-registration",
    ),
    _experiment(
        "allocation",
        "Call Allocate twice for the same device, once for two containers, and once for an unknown device.",
        "main",
        1,
        requires="plugin-registration",
    ),
    _experiment(
        "preferred-allocation",
        "Call GetPreferredAllocation for one device, for all devices, for two containers, with a device in "
        "must_include_deviceIDs, and with only some devices in available_deviceIDs.",
        "main",
        1,
        requires="plugin-registration",
        after=("allocation",),
    ),
    _experiment(
        "container-start",
        "Call PreStartContainer for an allocated device.",
        "main",
        1,
        requires="plugin-registration",
        after=("allocation", "preferred-allocation"),
    ),
    _experiment(
        "plugin-kubelet-restart",
        "Restart the kubelet, which removes the sockets of all device plugins. Wait up to 60 s for a registration, "
        "and call ListAndWatch again.",
        "main",
        10,
        requires="plugin-registration",
        after=("list-and-watch", *_CALLS),
        ends_driver=True,
    ),
    _experiment(
        "plugin-end",
        "Send SIGTERM, wait for the exit of the plugin and its child processes, and list the remaining sockets.",
        "main",
        2,
        requires="plugin-registration",
        after=("list-and-watch", *_CALLS, "plugin-kubelet-restart"),
        ends_driver=True,
    ),
    _experiment(
        "refused-plugin",
        "Refuse the registration 3 s after the call. Restart the kubelet, and accept the next registration.",
        "refused",
        15,
        ends_driver=True,
    ),
    _experiment(
        "removed-socket",
        "Remove the socket of the plugin, and wait up to 30 s for a registration with a new socket.",
        "restarted",
        15,
    ),
    Experiment(
        "plugin-fault-plan",
        "Break each device, several side by side, at each moment and with each change that the faults of the driver "
        "profile can cause. Then cause each fault that is left out once, in one device.",
        "planned",
        10,
        frozenset({"start", "fault"}),
        subject="device-plugin",
        scope="core",
        ends_driver=True,
    ),
    Experiment(
        "plugin-pod-status",
        "Run a Pod with devices of each resource on the reference, watch the Pod status, delete the Pod, and run "
        "another Pod.",
        "pod",
        20,
        frozenset({"start", "api-server"}),
        subject="device-plugin",
        scope="core",
    ),
    Experiment(
        "plugin-pod-faults",
        "Run a Pod with devices on the reference, cause and clear faults of one device, and watch the Pod status.",
        "pod-broken",
        10,
        frozenset({"start", "api-server", "fault"}),
        subject="device-plugin",
        scope="core",
    ),
    Experiment(
        "plugin-kubelet-pod",
        "Run a Pod with devices on a real kubelet, cause and clear faults of one device, watch the Pod status, and "
        "delete the Pod.",
        "kubelet",
        45,
        frozenset({"start", "api-server"}),
        subject="device-plugin",
        scope="full",
    ),
)
"""In the order of a run."""


# The experiments that break devices, as data.

FAULT_EXPERIMENTS = (
    Experiment(
        "faults",
        "While two streams are open, cause each fault of the driver profile, change its cause, and clear the fault. "
        "Then wait for one more report of each device.",
        "broken",
        18,
        frozenset({"health", "fault"}),
        scope="core",
        lasts_as_watch=True,
    ),
    Experiment(
        "fault-plan",
        "Break each device, several side by side, at each moment and with each change of health that the faults of the "
        "driver profile can cause. Streams of all health APIs are opened before, during and after.",
        "planned",
        3,
        frozenset({"health", "fault"}),
        scope="core",
    ),
    Experiment(
        "fault-during-prepare",
        "Break a device while NodePrepareResources waits for the API server.",
        "disturbed",
        6,
        seconds_per_fault=1,
        needs=frozenset({"start", "claim", "health", "gateway", "fault"}),
        scope="full",
    ),
    Experiment(
        "fault-without-stream",
        "Break a device while no health stream is open. Open streams, and close them. Clear the fault, and open "
        "streams again.",
        "unwatched",
        6,
        seconds_per_fault=11,
        needs=frozenset({"start", "health", "fault"}),
        scope="full",
    ),
    Experiment(
        "fault-without-api-server",
        "Break a device, and clear the fault, while the API server is down.",
        "disturbed",
        2,
        seconds_per_fault=1,
        needs=frozenset({"start", "health", "gateway", "fault"}),
        after=("fault-during-prepare",),
        scope="full",
    ),
    Experiment(
        "fault-during-kubelet-restart",
        "Close all streams, break a device, register the driver again, and open streams. Clear the fault, and wait for "
        "one more report of each device.",
        "unwatched",
        12,
        seconds_per_fault=6,
        lasts_as_watch=True,
        needs=frozenset({"start", "health", "fault"}),
        after=("fault-without-stream",),
        scope="full",
    ),
    Experiment(
        "second-fault",
        "Break a device with one fault, and then with a second fault. Clear both faults.",
        "disturbed",
        2,
        seconds_per_fault=8,
        needs=frozenset({"start", "health", "fault"}),
        after=("fault-during-prepare", "fault-without-api-server"),
        scope="full",
        in_a_pod=True,
    ),
    Experiment(
        "backend-restart",
        "Kill a scripted backend, start it again, and break a device.",
        "interrupted",
        6,
        seconds_per_fault=1,
        needs=frozenset({"start", "health", "fault", "backend"}),
        scope="full",
    ),
    Experiment(
        "stop-and-continue",
        "Stop the driver for 5 s with SIGSTOP, continue it with SIGCONT, and wait for reports.",
        "interrupted",
        20,
        frozenset({"start", "health"}),
        after=("backend-restart",),
        scope="full",
    ),
    Experiment(
        "fault-while-stopped",
        "Stop the driver with SIGSTOP, break a device, and send SIGCONT to the driver. Stop the driver again, clear "
        "the fault, and send SIGCONT.",
        "interrupted",
        2,
        seconds_per_fault=7,
        needs=frozenset({"start", "health", "fault"}),
        after=("backend-restart", "stop-and-continue"),
        scope="full",
    ),
    Experiment(
        "fault-over-restart",
        "Break a device, kill the driver, start it again, and open streams. Clear the fault, and wait for one more "
        "report of each device.",
        "interrupted",
        2,
        seconds_per_fault=3,
        needs=frozenset({"start", "health", "fault"}),
        after=("backend-restart", "stop-and-continue", "fault-while-stopped"),
        ends_driver=True,
        scope="full",
    ),
    Experiment(
        "idle",
        "Break a device, if the driver profile has a fault. Close all health streams, wait for 36 s, and open two "
        "streams of each health API. Wait for a second report of each device. Clear the fault, register the driver "
        "again, and prepare each device. Break each device while it is prepared, with one fault for each health, and "
        "change the cause. Wait for one more report, and clear the faults.",
        "idle",
        100,
        frozenset({"start", "health"}),
        scope="full",
        lasts_as_watch=True,
    ),
    Experiment(
        "kubelet-restart",
        "Delete the ResourceSlices, as a starting kubelet does. Register the driver again, and wait for new "
        "ResourceSlices.",
        "idle",
        30,
        frozenset({"start", "gateway"}),
        after=("idle",),
        scope="full",
    ),
)
"""Those of `drahealth certify`; a profile without faults runs none of those that need faults."""


# All experiments.

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        Experiment(
            "registration", "Wait for the registration socket, call GetInfo, and accept the registration.", "main", 2
        ),
        Experiment(
            "services",
            "Call each version of the DRA service and each health API, even if the driver does not advertise it.",
            "main",
            1,
            requires="registration",
        ),
        Experiment(
            "slices",
            "List the ResourceSlices, and watch them until the experiment `watch` ends.",
            "main",
            36,
            frozenset({"api-server"}),
            requires="registration",
            lasts_as_watch=True,
        ),
        Experiment(
            "watch",
            "Keep one stream of each health API open for at least 36 s. Follow each report of this time until the next "
            "report of the device, or until its timeout is over.",
            "main",
            36,
            frozenset({"health"}),
            requires="services",
            lasts_as_watch=True,
        ),
        Experiment(
            "subscribers",
            "Open two more streams at once. Open a stream of each health API, cancel it, and open another one.",
            "main",
            36,
            frozenset({"health"}),
            requires="services",
            lasts_as_watch=True,
        ),
        Experiment(
            "slow-subscriber",
            "Open one more stream, and read only its first report. HEALTH-10 judges the reports of the other streams.",
            "main",
            36,
            frozenset({"health"}),
            requires="services",
            lasts_as_watch=True,
        ),
        Experiment(
            "claims",
            "Prepare and unprepare the same claim twice, and several claims in one call. Unprepare an unknown claim. "
            "Prepare a claim with a device that is prepared for another claim. Prepare and unprepare a claim for each "
            "other device, for at most 20 s.",
            "main",
            10,
            frozenset({"claim"}),
            requires="registration",
            after=("services",),
        ),
        Experiment(
            "slow-prepare",
            "Call NodePrepareResources, and delay the driver's read of the claim. During the delay, open a health "
            "stream, and register the driver again.",
            "main",
            6,
            frozenset({"claim", "health", "gateway"}),
            requires="registration",
            after=("claims", "services"),
        ),
        Experiment(
            "reregistration",
            "Register at the same socket again, as a restarted kubelet does.",
            "main",
            1,
            requires="registration",
            after=("watch", "subscribers", "slow-subscriber", "claims", "slow-prepare"),
        ),
        Experiment(
            "end",
            "Send SIGTERM, wait for the exit of the driver and its child processes, and list the remaining sockets.",
            "main",
            2,
            frozenset({"start"}),
            requires="registration",
            after=(
                *("services", "slices", "watch", "subscribers", "slow-subscriber"),
                *("claims", "slow-prepare", "reregistration"),
            ),
            ends_driver=True,
            in_a_pod=True,
        ),
        Experiment(
            "refused-registration",
            "Refuse the registration, 3 s after GetInfo, and watch whether the driver keeps its socket or exits.",
            "refused",
            8,
            frozenset({"start"}),
            ends_driver=True,
        ),
        Experiment(
            "slice-deletion",
            "Prepare and unprepare claims, and prepare others. Register the driver again, and open a health stream. "
            "Delete a ResourceSlice, and wait until the driver publishes it again. Wait for one more report of each "
            "device. Unprepare the claims.",
            "restarted",
            30,
            frozenset({"start", "api-server"}),
            in_a_pod=True,
            lasts_as_watch=True,
        ),
        Experiment(
            "driver-restart",
            "Prepare a claim for each device, for at most 20 s. Kill the driver, and start it again. Prepare each "
            "claim again, and unprepare it.",
            "restarted",
            10,
            frozenset({"start", "claim"}),
            after=("slice-deletion",),
            ends_driver=True,
            in_a_pod=True,
        ),
        Experiment(
            "api-server-down",
            "Start the driver while its API server is down. Start the API server, wait for the ResourceSlices, and "
            "prepare claims. Stop the API server, call the driver, and unprepare the claims. Start the API server, "
            "prepare and unprepare claims, stop the API server again, and send SIGTERM.",
            "cut-off",
            26,
            frozenset({"start", "gateway"}),
            ends_driver=True,
        ),
        Experiment(
            "pod-status",
            "Run a Pod with claims for the driver on the reference, watch the Pod status, and delete the Pod.",
            "pod",
            20,
            frozenset({"start", "claim", "api-server"}),
            scope="core",
        ),
        Experiment(
            "kubelet-pod-status",
            "Run a Pod with claims for the driver on a real kubelet, watch the Pod status, and delete the Pod.",
            "kubelet",
            35,
            frozenset({"start", "claim", "api-server"}),
            scope="full",
            in_a_pod=True,
        ),
        Experiment(
            "pod-faults",
            "Run a Pod on the reference, cause and clear faults of its devices, and watch the Pod status.",
            "pod-broken",
            5,
            frozenset({"start", "claim", "api-server", "health", "fault"}),
            scope="core",
        ),
        Experiment(
            "kubelet-pod-faults",
            "Run a Pod on a real kubelet, cause and clear faults of its devices, and watch the Pod status.",
            "kubelet-broken",
            35,
            frozenset({"start", "claim", "api-server", "health", "fault"}),
            scope="full",
            in_a_pod=True,
        ),
        Experiment(
            "rolling-update",
            "Start a second instance of the driver beside the first one, and register the second instance. Break a "
            "device. End the first instance. Prepare and unprepare claims with the second instance.",
            "updated",
            25,
            frozenset({"start", "claim", "rolling-update"}),
            ends_driver=True,
            scope="full",
        ),
        *DEVICE_PLUGIN_EXPERIMENTS,
        *FAULT_EXPERIMENTS,
    )
}
"""All experiments by name, in the order of a run."""
REAL_KUBELET = frozenset({"kubelet-pod-status", "kubelet-pod-faults", "plugin-kubelet-pod"})
"""The experiments that run a real kubelet."""
