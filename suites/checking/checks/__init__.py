"""The checks: pure functions from evidence to findings. Importing this package registers them all."""

from drahealth.suites.checking.checks import (
    answers,
    api_server,
    cdi,
    ending,
    faults,
    health_fields,
    health_lists,
    health_streams,
    health_timing,
    pod_faults,
    pods,
    preparing,
    registration,
    slices,
    subscribers,
)
from drahealth.suites.checking.checks.registry import CHECKS, Check
from drahealth.suites.checking.device_plugins.checks import (
    allocating,
    breaking,
    listing,
    living,
    options,
    registering,
)

__all__ = [
    "CHECKS",
    "Check",
    "allocating",
    "answers",
    "api_server",
    "breaking",
    "cdi",
    "ending",
    "faults",
    "health_fields",
    "health_lists",
    "health_streams",
    "health_timing",
    "listing",
    "living",
    "options",
    "pod_faults",
    "pods",
    "preparing",
    "registering",
    "registration",
    "slices",
    "subscribers",
]
