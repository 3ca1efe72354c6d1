"""The experiments that break devices, as data."""

from drahealth.suites.checking.experiments.experiment import Experiment

FAULT_EXPERIMENTS = (
    Experiment(
        "faults",
        "Cause each fault of the driver profile, change its cause, and clear it, while two streams are open.",
        "broken",
        8,
        frozenset({"health", "fault"}),
        scope="core",
    ),
)
"""Those of `drahealth certify`; a profile without faults runs none of those that need faults."""
