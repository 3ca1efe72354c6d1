"""The subcommands `run`, `doctor`, `play` and `soak` of `drahealth`, which have the options of all targets."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from drahealth.suites.targets.option import Command, Option


# The flags of a subcommand that are derived from the options of the targets.

Given = dict[str, str | None]
"""Texts by the names of the options, with `target` among them; None stands for an option that is not given."""

_GIVEN = "given"


def takes_target_options(
    command: "Command", heading: str = "", usual: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds `--target` and the options of all targets to a subcommand, which gets them as its argument `given`.

    An option that the subcommand declares itself is not added. `heading` is that of the options in the help. `usual` is
    the default target, if it is not the first one.
    """
    return lambda subcommand: _with_flags(subcommand, list(_flags(command, heading, usual)))


def _with_flags(subcommand: Callable[..., None], offered: Sequence[inspect.Parameter]) -> Callable[..., None]:
    own = inspect.signature(subcommand, eval_str=True).parameters
    flags = {flag.name: flag for flag in offered if flag.name not in own}
    target, *others = flags.values()
    rest = [own[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in own if name != _GIVEN]
    parameters = [target, *rest, *others]

    @wraps(subcommand)
    def call(**arguments: Any) -> None:
        given = {name.replace("_", "-"): _text(arguments.pop(name)) for name in flags}
        subcommand(given=given, **arguments)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _flags(command: "Command", heading: str, usual: str) -> Iterator[inspect.Parameter]:
    from drahealth.suites.targets import registry

    yield _flag(registry.target_option(command, usual), heading or None)
    for option, targets in registry.options(command):
        everywhere = len(targets) == len(registry.FOLDERS)
        several = "s" if len(targets) > 1 else ""
        panel = f"Options of the {' and '.join(targets)} target{several}"
        panel = "" if everywhere else panel
        yield _flag(option, ": ".join(filter(None, (heading, panel))) or None)


def _flag(option: "Option[Any]", panel: str | None) -> inspect.Parameter:
    """The parameter that typer makes a flag of; `panel` is the heading that it is listed below."""
    kind: Any = bool if option.is_switch else str | None
    metavar = option.metavar or None
    shown = typer.Option(
        f"--{option.name}",
        metavar=metavar,
        help=option.help,
        rich_help_panel=panel,
        show_default=False,
        autocompletion=option.choices,
    )
    return inspect.Parameter(
        option.name.replace("-", "_"),
        inspect.Parameter.KEYWORD_ONLY,
        default=False if option.is_switch else None,
        annotation=Annotated[kind, shown],
    )


def _text(value: str | bool | None) -> str | None:
    """The text of an option's value; that of a switch is "true", or there is none."""
    if isinstance(value, bool):
        return "true" if value else None
    return value


# The subcommands `run`, `doctor`, `play` and `soak` of `drahealth`, which have the options of targets.

app = typer.Typer()

ExitFirst = Annotated[bool, typer.Option("-x", "--exitfirst", help="Stop after the first failure or error.")]
JUnitFile = Annotated[str | None, typer.Option(metavar="FILE.xml", help="Write JUnit XML.")]


@app.command("run")
@takes_target_options("run")
def run(
    given: Given,
    match: Annotated[
        str | None,
        typer.Option(
            "-k",
            metavar="EXPR",
            help="Run only the scenarios whose title or requirement matches. EXPR is a title as printed, a part of "
            "it, or an expression as in `pytest -k`.",
        ),
    ] = None,
    exitfirst: ExitFirst = False,
    last_failed: Annotated[
        bool,
        typer.Option(
            "--last-failed",
            help="Run only the scenarios that failed in the last run on this target. If none failed, run all "
            "scenarios.",
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "-n",
            metavar="N",
            min=1,
            help="Run N processes, each with its own node. On kind and cluster, all processes use one cluster. Default "
            "on the reference: the number of processors, at most 4; with -k or --last-failed: 1. Default on a real "
            "kubelet: the number of nodes that fit into half of the free memory, at most 4. Default on kind and "
            "cluster: 1.",
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
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="With --target cluster: show what a run creates, and the permissions that it needs, and run nothing.",
        ),
    ] = False,
) -> None:
    """Run the scenarios: the conformance tests for KEP-4680. Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 error
    in the environment.
    """
    if plan:
        from drahealth.suites.commands.machine import show_plan

        raise typer.Exit(show_plan(given))
    from drahealth.suites.commands.running import run_scenarios

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


@app.command("doctor")
@takes_target_options("doctor")
def doctor(given: Given) -> None:
    """Check which targets can run on this machine. Exit codes: 0 if at least one checked target can run, else 3."""
    from drahealth.suites.commands.machine import show_doctor

    raise typer.Exit(show_doctor(given))


@app.command("play")
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
    speed: Annotated[
        float | None, typer.Option(min=0.001, help="Speed factor; with 10, the timeline plays 10 times as fast.")
    ] = None,
    exitfirst: ExitFirst = False,
    report: Annotated[str | None, typer.Option(metavar="FILE.json", help="Write the report of the run.")] = None,
    junitxml: JUnitFile = None,
    histories: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write the history of each timeline into this directory.")
    ] = None,
) -> None:
    """Play timelines on the devices of a Pod, and check the Pod status. The exit codes are those of `run`."""
    from drahealth.suites.commands.running import play_timelines

    played = {"seed": None if seed is None else str(seed), "speed": None if speed is None else str(speed)}
    raise typer.Exit(
        play_timelines(
            files, given | played, exitfirst=exitfirst, report=report, junitxml=junitxml, histories=histories
        )
    )


@app.command("soak")
@takes_target_options("run")
def soak(
    given: Given,
    duration: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="How long to play rounds, such as 30m; default: 10m. It is real time: on the reference, hours of "
            "simulated time pass in minutes. The last round ends a little later.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="The same seed gives the same rounds. Default: a random one, which is printed."),
    ] = None,
    continued: Annotated[
        str | None,
        typer.Option(
            "--continue",
            metavar="FILE.json",
            help="Continue the soak of this report after its last round, on the same target with the same seed, until "
            "it has lasted for the time of --for in all. Default of --for: that of the report. Default of --report: "
            "this file.",
        ),
    ] = None,
    number: Annotated[
        int | None, typer.Option("--round", metavar="N", min=1, help="Play only this round of --seed.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE.json", help="Write the report, also after each round.")
    ] = None,
    junitxml: JUnitFile = None,
) -> None:
    """Play random timelines on several drivers, device plugins and Pods at the same time, round after round, with
    restarts of the drivers, the kubelet and the API server.

    Each round is judged by the invariants, and by the known issues of the release. The processes of drahealth, of the
    fake drivers (with --driver process) and of a kubelet on this machine are watched for leaks.
    Exit codes: 0 passed, 1 a round failed or a process leaks, 2 wrong usage, 3 error in the environment or interrupted.
    """
    from drahealth.suites.commands.soak_run import run_soak

    raise typer.Exit(
        run_soak(
            given,
            duration=duration,
            seed=seed,
            continued=continued,
            number=number,
            report=report,
            junitxml=junitxml,
        )
    )
