"""The `drahealth` command: the list of its subcommands. Each is imported when it is used."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from drahealth.fakes.command import FakesGroup, exit_with
from drahealth.fakes.program.errors import CommandError
from drahealth.suites.errors import ConfigurationError, HarnessError, full_text

_SUBCOMMANDS = {
    "run": (
        "run",
        (
            "Run the scenarios: the conformance tests for KEP-4680. Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 "
            "error in the environment."
        ),
    ),
    "check": (
        "check",
        "Check a DRA driver or a device plugin in any language: how it works with kubelets, and how it reports health.",
    ),
    "judge": ("check", "Judge the evidence of an earlier `check` again. The exit codes are those of `check`."),
    "report": ("check", "Write a web page, a text or a badge from the results of `check`, `certify` and `run`."),
    "selftest": (
        "check",
        "Test the checks of `drahealth check` with mutants (wrong drivers). Print the checks that catch each mutant.",
    ),
    "certify": (
        "certify",
        "Certify a driver that a driver profile describes, or a kubelet, and write the certificate to a directory.",
    ),
    "verify": (
        "certify",
        "Judge the evidence of a certificate again, and compare the verdicts with those in the report.",
    ),
    "sign": ("certify", "Sign the in-toto statement of a certificate, with a key or with sigstore."),
    "diff": (
        "certify",
        "Print the differences between two reports of drivers, or of two runs: what was tested, and the verdicts.",
    ),
    "observe": ("observe", "Observe an installed driver on all its nodes, from the API alone, and judge each node."),
    "up": ("up", "Start a Kubernetes node with fake devices on this machine, and leave it running."),
    "status": (
        "up",
        "Show the nodes of `drahealth up`. Exit codes: 0 all shown nodes Ready, 1 a node not Ready, 2 unknown node.",
    ),
    "down": ("up", "Stop a node of `drahealth up`, and remove its data."),
    "logs": ("up", "Print the log of a component of a node."),
    "load": (
        "up",
        "Apply manifests to a node, without kubectl. The API server of the node must serve the kind of each object.",
    ),
    "kubectl": ("up", "Run kubectl on a node: drahealth kubectl [--name NAME] ARGUMENTS."),
    "init": ("init", "Write a starting file with comments: a timeline, an inventory, or a Pod with its claim."),
    "scenarios": ("ledger", "List the scenarios and their requirements."),
    "explain": ("ledger", "Explain a requirement for kubelets or drivers, a reading, or a known issue."),
    "doctor": (
        "run",
        "Check which targets can run on this machine. Exit codes: 0 if at least one checked target can run, else 3.",
    ),
    "manager": (
        "manager",
        (
            "Run the reference in place of a kubelet. The reference runs Pods from manifests, and shows the health "
            "that drivers report."
        ),
    ),
    "clean": ("machine", "Remove the directories and the kind clusters that interrupted runs of drahealth left."),
    "plan": (
        "timelines",
        "Print the actions of a timeline, with their times, as JSON lines. The same file and seed give the same plan.",
    ),
    "play": (
        "run",
        "Play timelines on the devices of a Pod, and check the Pod status. The exit codes are those of `run`.",
    ),
    "soak": (
        "run",
        (
            "Play random timelines on several drivers, device plugins and Pods at the same time, round after round, "
            "with restarts of the drivers, the kubelet and the API server."
        ),
    ),
    "record": (
        "timelines",
        "Record the health reports of a driver as a timeline, until the health stream ends, or until Ctrl-C.",
    ),
    "binaries": ("machine", "Manage the Kubernetes binaries of the kubelet target."),
    "faults": ("faults", "Show faults of devices, the recovery of each fault, and policies."),
}
"""The module of each in suites/commands, and the first paragraph of its help."""


class _Drahealth(FakesGroup):
    subcommands: ClassVar[Mapping[str, tuple[str, str]]] = {
        **{name: (f"drahealth.suites.commands.{module}", text) for name, (module, text) in _SUBCOMMANDS.items()},
        **FakesGroup.subcommands,
    }


app = typer.Typer(name="drahealth", cls=_Drahealth, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        from drahealth.proto.version import __version__

        typer.echo(f"drahealth {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Test how kubelets and drivers report the health of a Pod's devices (KEP-4680), with fake hardware."""


def main() -> None:
    """The entry point: errors of ours are one sentence and an exit code."""
    try:
        app()
    except CommandError as error:
        exit_with(str(error), error.code)
    except HarnessError as error:
        exit_with(full_text(error), 2 if isinstance(error, ConfigurationError) else 3)
