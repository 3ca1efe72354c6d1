"""The subcommands `run`, `doctor` and `play` of `drahealth`, which have the options of targets."""

from pathlib import Path
from typing import Annotated

import typer

from drahealth.suites.commands.target_flags import Given, takes_target_options

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
            help="Run N processes, each with its own node. On kind, all processes use one cluster. Default on the "
            "reference: the number of processors, at most 4; with -k or --last-failed: 1. Default on a real kubelet: "
            "the number of nodes that fit into half of the free memory, at most 4. Default on kind: 1.",
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
    """Run the scenarios: the conformance tests for KEP-4680. Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 error
    in the environment.
    """
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


@app.command("doctor")
@takes_target_options("doctor")
def doctor(given: Given) -> None:
    """Check which targets can run on this machine. Exit codes: 0 if at least one checked target can run, else 3."""
    from drahealth.suites.commands.doctor import show_doctor

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
    from drahealth.suites.commands.play import play_timelines

    played = {"seed": None if seed is None else str(seed), "speed": None if speed is None else str(speed)}
    raise typer.Exit(
        play_timelines(
            files, given | played, exitfirst=exitfirst, report=report, junitxml=junitxml, histories=histories
        )
    )
