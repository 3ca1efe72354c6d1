"""Runs of driver profiles in memory, and faults."""

from collections.abc import Sequence
from typing import Any

from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.profile.faults import Action, Fault
from drahealth.suites.driver_checks.profile.file import profile_of


def run_with(sections: dict[str, Any] | None = None, command: Sequence[str] = ("driver",), **given: Any) -> DriverRun:
    """A run that starts the command; `sections` are further ones of its profile, or `driver` for another driver."""
    return DriverRun(profile_of({"driver": {"command": command}, **(sections or {})}), **given)


def fault(name: str, breaks: Action, heals: Action | str, **more: Any) -> Fault:
    """The fault of these actions."""
    return Fault.model_construct(name=name, break_=breaks, heal=heals, **more)
