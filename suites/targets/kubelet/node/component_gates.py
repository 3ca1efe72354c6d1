"""The feature gates of each component of a node.

A component does not start with a gate that it does not know. So each gets only those that its --help lists, and stable
or deprecated ones, such as DynamicResourceAllocation, which no help lists. All components except the kubelet check
their gates before they print their version. The kubelet knows those stable gates that the scheduler knows.
"""

import re
import subprocess
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from drahealth.fakes.hints import near
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kubelet.binaries.releases import Binaries

_LIMIT = 60.0
"""Seconds for a program to print its help or its version."""
_ERROR = re.compile(r'err="([^"]+)"')
_UNKNOWN = "unrecognized feature gate"
_GATE = re.compile(r"\b([A-Z]\w*)=true\|false\b")
"""A gate in the help of --feature-gates, such as `kube:AllAlpha=true|false (ALPHA - default=false)`."""


@dataclass(frozen=True, slots=True)
class ComponentGates:
    """The feature gates that each component gets."""

    api_server: Mapping[str, bool] = field(default_factory=dict)
    kubelet: Mapping[str, bool] = field(default_factory=dict)
    scheduler: Mapping[str, bool] = field(default_factory=dict)
    controller_manager: Mapping[str, bool] = field(default_factory=dict)


def gates_by_component(binaries: Binaries, gates: Mapping[str, bool]) -> ComponentGates:
    """For each component those of the gates that it knows.

    Raises ConfigurationError for a gate that no component knows or that has another fixed value, HarnessError if a
    program cannot print its help.
    """
    programs = (binaries.kube_apiserver, binaries.kubelet, binaries.kube_scheduler, binaries.kube_controller_manager)
    known = [gates_in(_help_of(program)) for program in programs]
    every = frozenset[str]().union(*known)
    for name, on in gates.items():
        if all(known) and name not in every:
            accepting = _accepting(binaries, name, on, every)
            known = [names | {name} if accepts else names for names, accepts in zip(known, accepting, strict=True)]
    return ComponentGates(*(_chosen(gates, names) for names in known))


def gates_in(text: str) -> frozenset[str]:
    """The feature gates that the help of a component lists."""
    return frozenset(_GATE.findall(text))


def _accepting(binaries: Binaries, name: str, on: bool, listed: Set[str]) -> tuple[bool, bool, bool, bool]:
    """Whether API server, kubelet, scheduler and controller manager accept a gate that no help lists."""
    programs = (binaries.kube_apiserver, binaries.kube_scheduler, binaries.kube_controller_manager)
    errors = [_error_with(program, name, on) for program in programs]
    if all(errors):
        if reason := next((error for error in errors if _UNKNOWN not in error), ""):
            raise ConfigurationError(f"Kubernetes {binaries.version}: {reason}", f"remove the feature gate {name}")
        hint = near(name, sorted(listed))
        raise ConfigurationError(f"Kubernetes {binaries.version} has no feature gate {name!r}", hint)
    api_server, scheduler, controller_manager = (not error for error in errors)
    return api_server, scheduler, scheduler, controller_manager


def _error_with(program: Path, name: str, on: bool) -> str:
    """The error of the program with this gate; empty if it accepts the gate."""
    command = [str(program), f"--feature-gates={name}={str(on).lower()}", "--version"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_LIMIT)
    except (OSError, subprocess.SubprocessError) as error:
        raise HarnessError(f"{program} --version failed: {error}") from None
    found = _ERROR.search(done.stderr)
    return "" if done.returncode == 0 else found[1] if found else f"{program.name} ended with {done.returncode}"


def _chosen(gates: Mapping[str, bool], known: Set[str]) -> dict[str, bool]:
    """All gates for a component that lists none: it reports those that it does not know."""
    return {name: on for name, on in gates.items() if name in known or not known}


def _help_of(program: Path) -> str:
    try:
        return subprocess.run([program, "--help"], check=True, capture_output=True, text=True, timeout=_LIMIT).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise HarnessError(f"{program} --help failed: {error}") from None
