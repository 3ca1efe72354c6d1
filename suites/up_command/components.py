"""The programs of a node of `drahealth up`, and the feature gates of each. All errors come before a process starts."""

from collections.abc import Mapping
from dataclasses import dataclass

from drahealth.suites.targets.kubelet.binaries.releases import Binaries
from drahealth.suites.targets.kubelet.node.component_gates import ComponentGates, gates_by_component
from drahealth.suites.targets.progress import Progress
from drahealth.suites.up_command.state import NodeState


@dataclass(frozen=True, slots=True)
class Components:
    """The programs of a real node, and the feature gates of each."""

    binaries: Binaries
    gates: ComponentGates


def components_of(state: NodeState, progress: Progress) -> Components | None:
    """None for the reference, whose gates are only checked.

    Raises ConfigurationError for an unknown gate, HarnessError if a program cannot be had.
    """
    if state.reference:
        from drahealth.suites.manager_command.options import gates_of

        gates_of(gates_text(state.gates))
        return None
    from drahealth.suites.targets.gates import feature_gates
    from drahealth.suites.targets.kubelet.binaries.ensure import ensure
    from drahealth.suites.targets.versions import profile_of

    binaries = ensure(state.kubernetes, progress)
    gates = feature_gates(profile_of(state.kubernetes))
    if not state.gates:  # no program needs to print its help
        return Components(binaries, ComponentGates(gates, gates))
    return Components(binaries, gates_by_component(binaries, {**gates, **state.gates}))


def gates_text(gates: Mapping[str, bool]) -> str:
    """The gates as an option of a command has them."""
    return ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
