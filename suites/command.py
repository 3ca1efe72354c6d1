"""The `drahealth` command: the list of its subcommands. Each is imported and built when it is used."""

from collections.abc import Mapping
from typing import Annotated

import typer

from drahealth.fakes.command import SUBCOMMANDS as OF_FAKES
from drahealth.fakes.command import exit_with
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import ListedGroup, Subcommand
from drahealth.suites.commands import completion
from drahealth.suites.errors import ConfigurationError, HarnessError, full_text


def _target_commands() -> typer.Typer:
    from drahealth.suites.commands.run import app

    return app


def _check_commands() -> typer.Typer:
    from drahealth.suites.commands.check import app

    return app


def _certify_commands() -> typer.Typer:
    from drahealth.suites.commands.certify import app

    return app


def _up_commands() -> typer.Typer:
    from drahealth.suites.commands.up import app

    return app


def _init_commands() -> typer.Typer:
    from drahealth.suites.commands.init import app

    return app


def _ledger_commands() -> typer.Typer:
    from drahealth.suites.commands.ledger_commands import app

    return app


def _manager() -> typer.Typer:
    from drahealth.suites.commands.manager import app

    return app


def _clean() -> typer.Typer:
    from drahealth.suites.commands.clean import app

    return app


def _timeline_commands() -> typer.Typer:
    from drahealth.suites.commands.timeline_commands import app

    return app


def _binaries_commands() -> typer.Typer:
    from drahealth.suites.commands.binaries_commands import app

    return app


def _fault_commands() -> typer.Typer:
    from drahealth.suites.commands.fault_commands import app

    return app


_SUBCOMMANDS: Mapping[str, Subcommand] = {
    "run": Subcommand(
        "Run the scenarios: the conformance tests for KEP-4680. Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 error "
        "in the environment.",
        _target_commands,
    ),
    "check": Subcommand(
        "Check a DRA driver or a device plugin in any language: how it works with kubelets, and how it reports health.",
        _check_commands,
    ),
    "judge": Subcommand(
        "Judge the evidence of an earlier `check` again. The exit codes are those of `check`.", _check_commands
    ),
    "report": Subcommand(
        "Write a web page, a text or a badge from the results of `check`, `certify` and `run`.", _check_commands
    ),
    "selftest": Subcommand(
        "Test the checks of `drahealth check` with mutants (wrong drivers). Print the checks that catch each mutant.",
        _check_commands,
    ),
    "certify": Subcommand(
        "Certify a driver that a driver profile describes, and write its certificate to a directory.", _certify_commands
    ),
    "verify": Subcommand(
        "Judge the evidence of a certificate again, and compare the verdicts with those in the report.",
        _certify_commands,
    ),
    "diff": Subcommand(
        "Print the differences between two reports: what the runs checked, and the verdicts.",
        _certify_commands,
    ),
    "up": Subcommand("Start a Kubernetes node with fake devices on this machine, and leave it running.", _up_commands),
    "status": Subcommand(
        "Show the nodes of `drahealth up`. Exit codes: 0 all shown nodes Ready, 1 a node not Ready, 2 unknown node.",
        _up_commands,
    ),
    "down": Subcommand("Stop a node of `drahealth up`, and remove its data.", _up_commands),
    "logs": Subcommand("Print the log of a component of a node.", _up_commands),
    "load": Subcommand(
        "Apply manifests to a node, without kubectl. The API server of the node must serve the kind of each object.",
        _up_commands,
    ),
    "kubectl": Subcommand("Run kubectl on a node: drahealth kubectl [--name NAME] ARGUMENTS.", _up_commands),
    "init": Subcommand(
        "Write a starting file with comments: a timeline, an inventory, or a Pod with its claim.", _init_commands
    ),
    "completion": Subcommand(
        "Print a script for shell completion of commands, options and their values.", lambda: completion.app
    ),
    "scenarios": Subcommand("List the scenarios and their requirements.", _ledger_commands),
    "explain": Subcommand(
        "Explain a requirement for kubelets or drivers, a reading, or a known issue.", _ledger_commands
    ),
    "doctor": Subcommand(
        "Check which targets can run on this machine. Exit codes: 0 if at least one checked target can run, else 3.",
        _target_commands,
    ),
    "manager": Subcommand(
        "Run the reference in place of a kubelet. The reference runs Pods from manifests, and shows the health that "
        "drivers report.",
        _manager,
    ),
    "clean": Subcommand(
        "Remove the directories and the kind clusters that interrupted runs of drahealth left.", _clean
    ),
    "plan": Subcommand(
        "Print the actions of a timeline, with their times, as JSON lines. The same file and seed give the same plan.",
        _timeline_commands,
    ),
    "play": Subcommand(
        "Play timelines on the devices of a Pod, and check the Pod status. The exit codes are those of `run`.",
        _target_commands,
    ),
    "record": Subcommand(
        "Record the health reports of a driver as a timeline, until the health stream ends, or until Ctrl-C.",
        _timeline_commands,
    ),
    "binaries": Subcommand("Manage the Kubernetes binaries of the kubelet target.", _binaries_commands),
    "faults": Subcommand("Show faults of devices, the recovery of each fault, and policies.", _fault_commands),
    **OF_FAKES,
}


class _Drahealth(ListedGroup):
    subcommands = _SUBCOMMANDS


app = typer.Typer(
    name="drahealth",
    cls=_Drahealth,
    help="Test how kubelets and drivers report the health of a Pod's devices (KEP-4680), with fake hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    if completion.is_asked():
        completion.answer(app)
        return
    try:
        app()
    except CommandError as complaint:
        exit_with(complaint)
    except ConfigurationError as error:
        _complain(error, 2)
    except HarnessError as error:
        _complain(error, 3)


def _complain(error: HarnessError, code: int) -> None:
    from drahealth.fakes.program.log import write_error
    from drahealth.fakes.program.usage import as_called

    write_error(as_called(full_text(error)))
    raise SystemExit(code)
