"""The options that only the kubelet target has."""

from drahealth.suites.targets.option import Option, executable_file, switch

KUBELET = Option(
    "kubelet",
    "FILE",
    "Use this kubelet, for example your own build. Its minor release must be that of --kubernetes, which also "
    "selects the control plane.",
    executable_file,
    ("run", "doctor"),
)
START = Option("start", "", "Also start a real kubelet, and check that it gets Ready.", switch, ("doctor",))
