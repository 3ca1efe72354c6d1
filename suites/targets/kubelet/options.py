"""The options that only the kubelet target has."""

from drahealth.suites.targets.option import Option, executable_file, switch

KUBELET = Option(
    "kubelet",
    "FILE",
    "Use this kubelet, for example your own build. --kubernetes selects the control plane, and must "
    "have the same minor release.",
    executable_file,
    ("run", "doctor"),
)
START = Option("start", "", "Also start a real kubelet, and check that its node becomes Ready.", switch, ("doctor",))
