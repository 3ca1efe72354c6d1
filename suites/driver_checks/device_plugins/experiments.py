"""The experiments on device plugins: what each does, which process it needs, and what it costs."""

from drahealth.suites.driver_checks.experiment import Experiment, Process


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
        "plugin-faults",
        "While a stream is open, cause each fault of the driver profile in one device, and clear the fault.",
        "broken",
        5,
        frozenset({"start", "fault"}),
        subject="device-plugin",
        scope="core",
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
