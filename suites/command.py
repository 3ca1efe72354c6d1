"""The `drahealth` command. Everything heavy is imported by the subcommand that needs it."""

from typing import Annotated

import typer

from drahealth.suites.errors import ConfigurationError, HarnessError

app = typer.Typer(
    name="drahealth",
    help="Conformance and end-to-end suite, with fake hardware, for the health of a Pod's devices (KEP-4680).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
binaries = typer.Typer(help="The Kubernetes binaries of the kubelet target.", no_args_is_help=True)
app.add_typer(binaries, name="binaries")

Target = Annotated[str, typer.Option(help="What to run on: reference, or kubelet (a real one).")]
Kubernetes = Annotated[str | None, typer.Option(help="Kubernetes release of the kubelet target, such as 1.37.1.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"drahealth {version('drahealth')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Conformance and end-to-end suite, with fake hardware, for the health of a Pod's devices (KEP-4680)."""


@app.command()
def run(
    target: Target = "reference",
    kubernetes: Kubernetes = None,
    profile: Annotated[str | None, typer.Option(help="What the reference behaves as: kep or v1.37.")] = None,
    driver: Annotated[str, typer.Option(help="Where the fake driver lives: inline or process.")] = "inline",
    match: Annotated[
        str | None, typer.Option("-k", metavar="EXPR", help="Only scenarios that match, as in pytest -k.")
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="FILE.json", help="Write the report of the run.")] = None,
    junitxml: Annotated[str | None, typer.Option(metavar="FILE.xml", help="Write JUnit XML.")] = None,
    histories: Annotated[str | None, typer.Option(metavar="DIR", help="Write each scenario's history.")] = None,
) -> None:
    """Run the scenarios of KEP-4680 and show the result. Exits 0 passed, 1 failed, 2 usage, 3 environment."""
    from drahealth.suites.running import run_scenarios

    flags = {"target": target, "kubernetes": kubernetes, "profile": profile, "driver": driver}
    raise typer.Exit(run_scenarios(flags, match=match, report=report, junitxml=junitxml, histories=histories))


@app.command()
def scenarios() -> None:
    """List the scenarios, with the sentences of the requirements that they judge."""
    from drahealth.suites.listing import show_scenarios

    show_scenarios()


@app.command()
def doctor(
    start: Annotated[bool, typer.Option("--start", help="Also start a node, to see that it works.")] = False,
) -> None:
    """Say what can run on this machine, and why not. Exits 3 if the kubelet target cannot."""
    from drahealth.suites.listing import show_doctor

    raise typer.Exit(show_doctor(start=start))


@binaries.command("ensure")
def binaries_ensure(kubernetes: Kubernetes = None) -> None:
    """Get the binaries of a release: from the cache, downloaded, or built with Go."""
    from drahealth.suites.listing import ensure_binaries

    ensure_binaries(kubernetes)


@binaries.command("list")
def binaries_list() -> None:
    """List the releases that are in the cache."""
    from drahealth.suites.listing import show_binaries

    show_binaries()


@binaries.command("remove")
def binaries_remove(kubernetes: Annotated[str, typer.Argument(help="The release, such as 1.37.1.")]) -> None:
    """Remove a release from the cache."""
    from drahealth.suites.listing import remove_binaries

    remove_binaries(kubernetes)


def main() -> None:
    """The entry point: errors of ours are one sentence and an exit code."""
    try:
        app()
    except ConfigurationError as error:
        _complain(error, 2)
    except HarnessError as error:
        _complain(error, 3)


def _complain(error: HarnessError, code: int) -> None:
    typer.echo(f"drahealth: {error}", err=True)
    raise SystemExit(code)
