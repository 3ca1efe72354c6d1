"""Each component gets the feature gates that it knows. The programs are scripts that print a help, and check gates."""

from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kubelet.binaries import Binaries
from drahealth.suites.targets.kubelet.control_plane import ComponentGates, clients_with, gates_by_component, gates_in
from drahealth.suites.targets.kubelet.layout import CONTROLLER_MANAGER, SCHEDULER

HELP = """
      --feature-gates mapStringBool    A set of key=value pairs that describe feature gates. Options are:
                kube:AllAlpha=true|false (ALPHA - default=false)
                DRAAdminAccess=true|false (default=true)
      --leader-elect   Options are: endpoints=true|false. (default true)
"""


STABLE = """\
--feature-gates=Stable=true) [ "${0##*/}" != kube_controller_manager ] || reject "unrecognized feature gate: Stable" ;;
--feature-gates=Stable=false) reject "cannot set feature gate Stable to false, feature is locked to true" ;;
"""
PROGRAM = """\
#!/bin/sh
reject() {{ echo "E1123 1 run.go:72] \\"command failed\\" err=\\"$1\\"" >&2; exit 1; }}
case $1 in
--help) echo '{help}' ;;
{stable}*) reject "unrecognized feature gate: X" ;;
esac
"""


def binaries(folder: Path, **gates: str) -> Binaries:
    """Programs whose --help lists these gates, separated by spaces.

    The API server and the scheduler accept Stable=true, too.
    """
    paths = {}
    for name in ("kubelet", "kube_apiserver", "kube_scheduler", "kube_controller_manager"):
        lines = [f"kube:{gate}=true|false (ALPHA - default=false)" for gate in gates.get(name, "").split()]
        paths[name] = folder / name
        paths[name].write_text(PROGRAM.format(help="\n".join(["usage", *lines]), stable=STABLE))
        paths[name].chmod(0o700)
    return Binaries("1.37.1", **paths, etcd=folder)


def test_the_gates_of_a_help_are_read() -> None:
    assert gates_in(HELP) == {"AllAlpha", "DRAAdminAccess"}


def test_each_component_gets_the_gates_that_it_knows(tmp_path: Path) -> None:
    programs = binaries(tmp_path, kubelet="A B", kube_apiserver="A", kube_scheduler="B", kube_controller_manager="C")
    wanted = ComponentGates({"A": True}, {"A": True, "B": False}, {"B": False}, {})
    assert gates_by_component(programs, {"A": True, "B": False}) == wanted


def test_a_gate_that_no_component_knows_is_an_error(tmp_path: Path) -> None:
    known = "DRAAdminAccess"
    programs = binaries(
        tmp_path, kubelet=known, kube_apiserver=known, kube_scheduler=known, kube_controller_manager=known
    )
    with pytest.raises(ConfigurationError, match="DRAAdminAccess"):
        gates_by_component(programs, {"DRAAdminAcess": True})


def test_a_stable_gate_that_no_help_lists_goes_to_the_components_that_accept_it(tmp_path: Path) -> None:
    programs = binaries(tmp_path, kubelet="A", kube_apiserver="A", kube_scheduler="A", kube_controller_manager="A")
    stable = {"Stable": True}
    assert gates_by_component(programs, stable) == ComponentGates(stable, stable, stable, {})


def test_another_value_of_a_locked_gate_is_an_error(tmp_path: Path) -> None:
    programs = binaries(tmp_path, kubelet="A", kube_apiserver="A", kube_scheduler="A", kube_controller_manager="A")
    with pytest.raises(ConfigurationError, match="locked to true"):
        gates_by_component(programs, {"Stable": False})


def test_component_without_listed_gates_receives_every_gate(tmp_path: Path) -> None:
    programs = binaries(tmp_path, kubelet="A", kube_apiserver="A", kube_controller_manager="A")
    assert gates_by_component(programs, {"Any": True}) == ComponentGates(scheduler={"Any": True})


def test_a_program_that_cannot_run_is_an_error_of_the_machine(tmp_path: Path) -> None:
    programs = binaries(tmp_path)
    programs.kubelet.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(HarnessError, match="kubelet --help"):
        gates_by_component(programs, {"A": True})


def test_gates_reach_the_scheduler_and_the_controller_manager() -> None:
    gates = ComponentGates(scheduler={"A": True, "B": False}, controller_manager={})
    assert clients_with(gates) == {SCHEDULER: ["--feature-gates=A=true,B=false"], CONTROLLER_MANAGER: []}
