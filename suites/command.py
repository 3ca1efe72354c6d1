"""The `drahealth` command. Everything heavy is imported by the subcommand that needs it."""

from pathlib import Path
from typing import Annotated

import typer

from drahealth.fakes.command import FakesGroup, exit_with
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.log_lines import LogFormat, log_as_json, write_error
from drahealth.fakes.program.usage import CommandGroup, LogFormatOption
from drahealth.suites.certify_command import commands as certify_commands
from drahealth.suites.check_command import commands as check_commands
from drahealth.suites.commands import completion
from drahealth.suites.commands.fault_commands import faults_app
from drahealth.suites.commands.target_flags import Given, TargetCommand, takes_target_options
from drahealth.suites.errors import ConfigurationError, HarnessError, full_text
from drahealth.suites.init_command import commands as init_commands
from drahealth.suites.up_command import commands as up_commands

app = typer.Typer(
    name="drahealth",
    cls=FakesGroup,
    help="Test how kubelets and drivers report the health of a Pod's devices (KEP-4680), with fake hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
binaries = typer.Typer(
    cls=CommandGroup, help="Manage the Kubernetes binaries of the kubelet target.", no_args_is_help=True
)
app.add_typer(binaries, name="binaries")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ExitFirst = Annotated[bool, typer.Option("-x", "--exitfirst", help="Stop after the first failure or error.")]
JUnitFile = Annotated[str | None, typer.Option(metavar="FILE.xml", help="Write JUnit XML.")]
Kubernetes = Annotated[str | None, typer.Option(metavar="VERSION", help="Kubernetes release, such as 1.37.1.")]


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


@app.command("run", cls=TargetCommand)
@takes_target_options("run")
def run(
    given: Given,
    match: Annotated[
        str | None,
        typer.Option(
            "-k", metavar="EXPR", help="Run only the scenarios whose name or requirement matches, as with pytest -k."
        ),
    ] = None,
    exitfirst: ExitFirst = False,
    last_failed: Annotated[
        bool,
        typer.Option(
            "--last-failed", help="Run the scenarios that failed in the last run on this target; all if none failed."
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "-n",
            metavar="N",
            min=1,
            help="Run N processes, each with its own node. The default is at most 4: on the reference the number of "
            "processors, on a real kubelet the number of nodes that fit into half of the free memory.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Run the scenarios in a random order; the same seed gives the same order."),
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="FILE.json", help="Write the report of the run.")] = None,
    junitxml: JUnitFile = None,
    histories: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write the history of each scenario into this directory.")
    ] = None,
) -> None:
    """Run the scenarios of KEP-4680. Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 error in the environment."""
    from drahealth.suites.commands.run_scenarios import run_scenarios

    raise typer.Exit(
        run_scenarios(
            given | {"seed": None if seed is None else str(seed)},
            match=match,
            exitfirst=exitfirst,
            last_failed=last_failed,
            workers=workers,
            report=report,
            junitxml=junitxml,
            histories=histories,
        )
    )


check_commands.add_to(app)
certify_commands.add_to(app)
up_commands.add_to(app)
init_commands.add_to(app)
app.add_typer(faults_app, name="faults")
app.command("completion")(completion.completion)


@app.command()
def scenarios(json: Json = False) -> None:
    """List the scenarios and their requirements."""
    from drahealth.suites.commands.listing import show_scenarios

    show_scenarios(as_json=json)


@app.command()
def explain(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...",
            help="A requirement, a reading or a known issue: STATUS-03, READ-01, P-08.",
            autocompletion=completion.explained_ids,
        ),
    ],
    json: Json = False,
) -> None:
    """Explain a requirement of kubelets or drivers, a reading, or a known issue."""
    from drahealth.suites.commands.listing import show_explanations

    show_explanations(ids, as_json=json)


@app.command("doctor", cls=TargetCommand)
@takes_target_options("doctor")
def doctor(given: Given) -> None:
    """Check which targets can run on this machine. Exit codes: 0 if at least one checked target can run, else 3."""
    from drahealth.suites.commands.doctor import show_doctor

    raise typer.Exit(show_doctor(given))


@app.command("manager")
def run_manager(
    root_dir: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Root directory, in place of /var/lib/kubelet. Drivers register below it."),
    ],
    pods: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory with manifests; the manager writes statuses there. Default: pods in the root directory.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Behavior: kep (default), or v1.34 to v1.37. With a real API server, the default is the profile of "
            "its release.",
            autocompletion=completion.profiles,
        ),
    ] = None,
    api_server: Annotated[
        str,
        typer.Option(metavar="KIND", help="API server: memory (default), or real, which is kube-apiserver and etcd."),
    ] = "memory",
    kubernetes: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Kubernetes release of a real API server; default: 1.37.1.")
    ] = None,
    node_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the node; default: this machine's name.")
    ] = None,
    resync: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between two resyncs of each Pod status.")
    ] = 60.0,
    feature_gates: Annotated[
        str | None,
        typer.Option(
            metavar="GATE=BOOL,...",
            help="Feature gates: ResourceHealthStatus and ResourceHealthStatusMessage; default: both true.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Port for Prometheus metrics on 127.0.0.1; 0 selects a free port. "
            "Clients need the token in the file metrics-token of the root directory.",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all messages of drivers and device plugins to this new file."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print lines of JSON, even on a terminal.")] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run the reference in place of a kubelet. It runs Pods from manifests, and shows the health that drivers report.

    SIGTERM or Ctrl-C ends it. The next manager with the same root directory continues from its state.
    Exit codes: 2 wrong usage, 3 error in the environment.
    """
    if log_format is LogFormat.JSON:
        log_as_json()
    from drahealth.suites.manager_command.options import Options
    from drahealth.suites.manager_command.program import serve

    serve(
        Options.make(
            root_dir=root_dir,
            pods=pods,
            profile=profile,
            api_server=api_server,
            kubernetes=kubernetes,
            node_name=node_name,
            resync=resync,
            feature_gates=feature_gates,
            metrics_port=metrics_port,
            json=json or log_format is LogFormat.JSON,
            history=history,
        )
    )


@app.command()
def clean(
    kept: Annotated[bool, typer.Option("--kept", help="Also remove clusters that were kept with --keep.")] = False,
) -> None:
    """Remove what interrupted runs left: their directories, and kind clusters that drahealth created."""
    from drahealth.suites.commands.listing import clean_up

    clean_up(kept=kept)


@binaries.command("ensure")
def binaries_ensure(kubernetes: Kubernetes = None) -> None:
    """Get the binaries of a release. Download them, or build them with Go, if they are not in the cache."""
    from drahealth.suites.targets.kubelet.binaries.listing import ensure_binaries

    ensure_binaries(kubernetes)


@binaries.command("helm")
def binaries_helm() -> None:
    """Get Helm, for the tests of the chart. Download it, or build it with Go, if it is not in the cache."""
    from drahealth.suites.targets.kubelet.binaries.listing import ensure_helm

    ensure_helm()


@binaries.command("list")
def binaries_list() -> None:
    """List the releases in the cache."""
    from drahealth.suites.targets.kubelet.binaries.listing import show_binaries

    show_binaries()


@binaries.command("remove")
def binaries_remove(kubernetes: Annotated[str, typer.Argument(help="The release, such as 1.37.1; or helm.")]) -> None:
    """Remove a release from the cache."""
    from drahealth.suites.targets.kubelet.binaries.listing import remove_binaries

    remove_binaries(kubernetes)


@app.command()
def plan(
    file: Annotated[Path | None, typer.Argument(help="The timeline file.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of random values; default: the seed of the file.")] = None,
    devices: Annotated[int, typer.Option(min=1, help="Number of GPUs, if the file has no inventory.")] = 2,
    partitions: Annotated[
        int, typer.Option(min=0, help="Number of partitions of each GPU, if the file has no inventory.")
    ] = 0,
    inventory: Annotated[
        Path | None, typer.Option(help="Inventory file; default: the inventory of the timeline.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print only the JSON Schema of timelines.")] = False,
) -> None:
    """Print the actions of a timeline and their times, as lines of JSON. The same file and seed give the same plan."""
    from drahealth.suites.commands.plans import show_plan

    show_plan(file, seed=seed, devices=devices, partitions=partitions, inventory=inventory, schema=schema)


@app.command("play", cls=TargetCommand)
@takes_target_options("run")
def play(
    given: Given,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="*.timeline.yaml files, directories with such files, or - for standard input."
        ),
    ],
    seed: Annotated[int | None, typer.Option(help="Seed of random values; default: the seed of the file.")] = None,
    speed: Annotated[float | None, typer.Option(min=0.001, help="Play this many times as fast, such as 10.")] = None,
    exitfirst: ExitFirst = False,
    report: Annotated[str | None, typer.Option(metavar="FILE.json", help="Write the report of the run.")] = None,
    junitxml: JUnitFile = None,
    histories: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write the history of each timeline into this directory.")
    ] = None,
) -> None:
    """Play timelines on the devices of a Pod, and check the Pod status. It has the exit codes of `run`."""
    from drahealth.suites.commands.play import play_timelines

    played = {"seed": None if seed is None else str(seed), "speed": None if speed is None else str(speed)}
    raise typer.Exit(
        play_timelines(
            files, given | played, exitfirst=exitfirst, report=report, junitxml=junitxml, histories=histories
        )
    )


@app.command()
def record(
    socket: Annotated[Path, typer.Argument(help="Registration socket of the driver, or its plugin socket.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Output file; default: standard output.", show_default=False)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Stop after this number of seconds.", show_default=False)
    ] = None,
    messages: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number of messages.", show_default=False)
    ] = None,
) -> None:
    """Record the health reports of a driver as a timeline, until its stream ends, or until Ctrl-C."""
    from drahealth.suites.commands.plans import write_recording

    write_recording(socket, output, seconds=seconds, messages=messages)


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
    write_error(full_text(error))
    raise SystemExit(code)
