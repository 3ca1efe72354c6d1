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
    pods,
    preparing,
    registration,
    slices,
    subscribers,
)
from drahealth.suites.checking.checks.registry import CHECKS, Check

__all__ = [
    "CHECKS",
    "Check",
    "answers",
    "api_server",
    "cdi",
    "ending",
    "faults",
    "health_fields",
    "health_lists",
    "health_streams",
    "health_timing",
    "pods",
    "preparing",
    "registration",
    "slices",
    "subscribers",
]
