"""The experiments: what each does, which driver process it needs, and what it costs."""

from drahealth.suites.checking.device_plugins.plan import DEVICE_PLUGIN_EXPERIMENTS
from drahealth.suites.checking.experiments.experiment import Experiment
from drahealth.suites.checking.experiments.fault_plan import FAULT_EXPERIMENTS

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
