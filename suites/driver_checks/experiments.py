"""The experiments: what each does, which driver process it needs, and what it waits for."""

from drahealth.suites.driver_checks.device_plugins.experiments import DEVICE_PLUGIN_EXPERIMENTS
from drahealth.suites.driver_checks.experiment import Experiment

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
        "Break a device, kill the driver, start it again, and open streams.",
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
        "Close all health streams, wait for 36 s, and open two streams. Wait for a second report of each device.",
        "idle",
        52,
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


# The experiments: what each does, which driver process it needs, and what it costs.

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
            "Open two more streams at the same time. Open a third stream, cancel it, and open another stream.",
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
            "Prepare a claim with a device that is prepared for another claim.",
            "main",
            10,
            frozenset({"claim"}),
            requires="registration",
            after=("services",),
        ),
        Experiment(
            "slow-prepare",
            "Call NodePrepareResources, and delay the driver's read of the claim. Open a health stream during the "
            "delay.",
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
            "Register the driver again, and open a health stream. Delete a ResourceSlice, and wait until the driver "
            "publishes it again. Wait for one more report of each device.",
            "restarted",
            30,
            frozenset({"start", "api-server"}),
            in_a_pod=True,
            lasts_as_watch=True,
        ),
        Experiment(
            "driver-restart",
            "Prepare a claim, kill the driver, and start it again. Prepare the claim again, and unprepare it.",
            "restarted",
            10,
            frozenset({"start", "claim"}),
            after=("slice-deletion",),
            ends_driver=True,
            in_a_pod=True,
        ),
        Experiment(
            "api-server-down",
            "Start the driver while its API server is down; start the API server, wait for the ResourceSlices, and "
            "stop the API server again.",
            "cut-off",
            20,
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
