"""The options that only the kubelet target has."""

from drahealth.suites.targets.option import Option, executable_file, switch

KUBELET = Option(
    "kubelet",
    "FILE",
    "Test this kubelet, for example your own build. The release that --kubernetes selects must be its release; the "
    "control plane is of that release.",
    executable_file,
    ("run", "doctor"),
)
START = Option("start", "", "Also start a real kubelet, and check that it gets Ready.", switch, ("doctor",))
