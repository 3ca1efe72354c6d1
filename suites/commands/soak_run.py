"""The work of `drahealth soak`: its options, its report, and what it prints."""

import logging
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from drahealth.fakes.durations import FIXED_HINT, option_seconds
from drahealth.proto.quoting import printable
from drahealth.proto.version import __version__
from drahealth.suites.commands.ending import terminated_gracefully
from drahealth.suites.commands.running import Live
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.output_paths import check_output_file
from drahealth.suites.report.document import Command, RunReport, ScenarioResult, to_json
from drahealth.suites.report.junit import to_junit
from drahealth.suites.report.result_files import read_run_report
from drahealth.suites.report.run_report import Run
from drahealth.suites.run.options import Options, new_run, now
from drahealth.suites.soak.campaign import Campaign, Progress
from drahealth.suites.soak.leaks import LIMITS
from drahealth.suites.targets.progress import StagePrinter
from drahealth.suites.targets.registry import Launch

_DEFAULT = 600.0
_LONGEST_DAYS = 30
_COMMAND: Command = "drahealth soak"
_BESIDE = ("seed", "for", "round")
"""The options in a report that do not belong to the target."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A soak as the options say, checked."""

    options: Options
    seconds: float
    seed: int
    number: int | None = None
    """The only round to play."""
    earlier: RunReport | None = None
    """The report that is continued."""


def run_soak(
    given: Mapping[str, str | None],
    *,
    duration: str | None,
    seed: int | None,
    continued: str | None,
    number: int | None,
    report: str | None,
    junitxml: str | None,
) -> int:
    """Play the soak, print and write its results; return the exit code. Raises ConfigurationError, HarnessError."""
    asked = _asked(given, duration, seed, continued, number)
    report = report or continued
    check_output_file(report)
    check_output_file(junitxml)
    output = Console(file=sys.stdout, highlight=False)
    texts = {"seed": str(asked.seed), "for": f"{asked.seconds:g}s"}
    run = new_run(asked.options, _COMMAND, texts if number is None else {**texts, "round": str(number)})
    progress = Progress()
    if asked.earlier and asked.earlier.soak:
        progress = Progress.of(asked.earlier.soak)
        run.results = list(asked.earlier.scenarios)
        run.conditions = replace(run.conditions, started=asked.earlier.conditions.started)
    live = Live(output)
    live.run = run

    def update() -> None:
        run.soak = progress.summary(progress.lasted if number else asked.seconds, run.counts())

    def show(result: ScenarioResult) -> None:
        live.show(result)
        update()
        _write_unfinished(run, report)

    update()
    _write_unfinished(run, report)
    logging.getLogger("drahealth").addHandler(logging.NullHandler())  # what rounds do on purpose is not worth a line
    output.print(Text(f"{run.about}, seed {asked.seed}{_from(progress)}", style="bold"), soft_wrap=True)
    began = time.monotonic()
    launch = Launch(StagePrinter(Console(stderr=True, highlight=False)), lambda: bool(run.counts().get("failed")))
    with terminated_gracefully():
        try:
            Campaign(asked.options, run, progress, seed=asked.seed, on_round=show).play(
                launch, asked=asked.seconds, only=number
            )
        except KeyboardInterrupt:
            run.interrupted = True
    update()
    made = run.report(ended=None if run.interrupted else now())
    live.close(time.monotonic() - began)
    for line in lines_of(made, report):
        output.print(Text(printable(line)), soft_wrap=True)
    if report:
        Path(report).write_text(to_json(made), encoding="utf-8")
    if junitxml:
        Path(junitxml).write_text(to_junit(made), encoding="utf-8")
    return made.exit_code


def _asked(
    given: Mapping[str, str | None], duration: str | None, seed: int | None, continued: str | None, number: int | None
) -> Asked:
    """Raises ConfigurationError for options that do not fit together, and for a report that cannot be continued."""
    seconds = None if duration is None else _seconds(duration)
    if number is not None and (seed is None or duration is not None or continued is not None):
        raise ConfigurationError("--round needs --seed, and neither --for nor --continue")
    if continued is None:
        drawn = secrets.randbelow(2**31) if seed is None else seed
        return Asked(Options.make(given), seconds or _DEFAULT, drawn, number)
    earlier = read_run_report(Path(continued))
    if earlier.soak is None or earlier.conditions.seed is None:
        raise ConfigurationError(f"{continued} is not the report of a soak", "pass a file of `drahealth soak --report`")
    made_by = earlier.conditions.versions.get("drahealth", "")
    if made_by != __version__:
        raise ConfigurationError(
            f"{continued} is a soak of drahealth {made_by}, and this is {__version__}", "start another soak"
        )
    known = {name: value for name, value in earlier.conditions.options.items() if name not in _BESIDE}
    options = Options.make(known)
    if any(given.values()) and Options.make(given) != options:
        raise ConfigurationError(
            f"{continued} is a soak of {options.about}, and the options name another target", "leave them out"
        )
    if seed not in (None, earlier.conditions.seed):
        raise ConfigurationError(f"{continued} has the seed {earlier.conditions.seed}, not {seed}", "leave out --seed")
    seconds = seconds or earlier.soak.asked
    if earlier.soak.lasted >= seconds:
        raise ConfigurationError(
            f"{continued} has lasted {earlier.soak.lasted:.0f} s already", "pass a longer time with --for"
        )
    return Asked(options, seconds, earlier.conditions.seed, None, earlier)


def _seconds(duration: str) -> float:
    """Raises ConfigurationError."""
    try:
        return option_seconds("--for", duration, _LONGEST_DAYS)
    except ValueError as error:
        raise ConfigurationError(str(error), FIXED_HINT) from None


def _from(progress: Progress) -> str:
    return f", continued after round {progress.rounds}" if progress.pieces > 1 else ""


def _write_unfinished(run: Run, path: str | None) -> None:
    """The report of an interrupted soak: after SIGKILL, it can be continued."""
    if path and (not Path(path).exists() or Path(path).is_file()):
        unfinished = replace(run, interrupted=True, stopped="the soak did not reach its end")
        draft = Path(f"{path}.draft")
        with suppress(OSError):  # the end of the soak reports it
            draft.write_text(to_json(unfinished.report(ended=None, exit_code=3)), encoding="utf-8")
            draft.replace(path)


def lines_of(report: RunReport, path: str | None) -> Iterator[str]:
    """What a soak prints at its end."""
    soak = report.soak
    assert soak
    yield from soak.lines()
    yield from map(str, soak.uses)
    if soak.not_judged:
        warm = max(limit.warm_up for limit in LIMITS.values())
        longest = max(limit.judged for limit in LIMITS.values())
        yield f"memory is judged after {warm} rounds and {longest / 60:g} minutes more of a process; the others earlier"
    yield f"{report.verdict}{f': {report.reasons[-1]}' if report.interrupted else ''}"
    if report.interrupted and path:
        yield f"continue: drahealth soak --continue {path}"
