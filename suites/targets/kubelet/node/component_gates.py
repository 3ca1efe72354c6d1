"""The feature gates of each component of a node.

A component does not start with a gate that it does not know. So each gets only those that its --help lists.
"""

import re
import subprocess
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from drahealth.fakes.hints import near
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kubelet.binaries.releases import Binaries

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

    Raises ConfigurationError for a gate that no component knows, HarnessError if a program cannot print its help.
    """
    programs = (binaries.kube_apiserver, binaries.kubelet, binaries.kube_scheduler, binaries.kube_controller_manager)
    known = [gates_in(_help_of(program)) for program in programs]
    every = frozenset[str]().union(*known)
    for name in gates:
        if all(known) and name not in every:
            raise ConfigurationError(f"Kubernetes {binaries.version} has no feature gate {name!r}", near(name, every))
    return ComponentGates(*(_chosen(gates, names) for names in known))


def gates_in(text: str) -> frozenset[str]:
    """The feature gates that the help of a component lists."""
    return frozenset(_GATE.findall(text))


def _chosen(gates: Mapping[str, bool], known: Set[str]) -> dict[str, bool]:
    """All gates for a component that lists none: it reports those that it does not know."""
    return {name: on for name, on in gates.items() if name in known or not known}


def _help_of(program: Path) -> str:
    try:
        return subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise HarnessError(f"{program} --help failed: {error}") from None
