"""`drahealth check`, `judge` and `report`: a profile from flags, run or read, judge, and write; and its progress."""

import asyncio
import os
import shutil
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from shlex import join, quote
from typing import Any, Literal, Protocol, get_args

from rich.console import Console
from rich.live import Live
from rich.text import Text

from drahealth.fakes.cluster.api import CLAIMS, Object
from drahealth.fakes.hints import near
from drahealth.fakes.program.console import standard_output
from drahealth.fakes.program.usage import command_as_called
from drahealth.fakes.program.user_files import FileError
from drahealth.proto.events import Event, ExperimentEnded, ExperimentStarted, ProcessExited, ReportReceived
from drahealth.proto.quoting import printable
from drahealth.suites.commands.ending import run_terminable
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.check import needed_experiments
from drahealth.suites.driver_checks.driver_run import DEADLINE, DriverRun, check_kubeconfig, duration, plan
from drahealth.suites.driver_checks.evidence import Evidence, EvidenceError, read_evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.output_text import exit_text, without_exits
from drahealth.suites.driver_checks.profile.file import profile_of
from drahealth.suites.driver_checks.profile.manifests import claim_objects
from drahealth.suites.driver_checks.subject.places import check_placeholders
from drahealth.suites.driver_checks.summary import Summary, read_waivers, summarize
from drahealth.suites.driver_checks.verdicts import Level, SubjectKind, Waiver, requirements
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.output_paths import check_output_file
from drahealth.suites.report.attestation import ABOUT, conformance_report
from drahealth.suites.report.check_report import check_report
from drahealth.suites.report.document import CheckReport, KubeletReport, to_json
from drahealth.suites.report.junit import to_junit
from drahealth.suites.report.page import page, page_of
from drahealth.suites.report.page_view import NOT_JUDGED_AGAIN
from drahealth.suites.report.result_files import read_files
from drahealth.suites.report.text import annotations, badge, pull_request_text, show
from drahealth.suites.targets.option import ApiServerKind, choice
from drahealth.suites.targets.versions import parse_version

# The progress of a run: a line for each experiment at its start and its end, and the time that is left.

_SHOWN = 3
"""The most requirements of a line."""


class Clock(Protocol):
    """Monotonic seconds."""

    def __call__(self) -> float: ...


class View(Protocol):
    """Where the progress is shown."""

    def line(self, text: str) -> None:
        """Shows a line that stays."""

    def status(self, text: str) -> None:
        """Shows the present state, once a second."""


class Progress:
    """A listener of a run."""

    def __init__(self, run: DriverRun, view: View, only: Sequence[str] = (), now: Clock = time.monotonic) -> None:
        """`only` are the IDs of the requirements that are judged; empty for all of the level."""
        self._view = view
        self._now = now
        self._began = now()
        self._planned = duration(run)
        self._judged = judged_by(run, only)
        self._started: dict[str, float] = {}
        self._not_done: set[str] = set()
        self._exits: list[str] = []
        self._reports = 0
        self._level = run.level
        self._has_begun = False

    def __call__(self, experiment: str, event: Event) -> None:
        """Shows an event of an experiment. Before the first one, shows how much the run judges, and its usual time."""
        match event:
            case ExperimentStarted():
                self._begin()
                if EXPERIMENTS[experiment].requires in self._not_done:
                    self._not_done.add(experiment)  # it ends at once, for the same reason
                    return
                self._started[experiment] = self._now()
                self._line(f"{experiment}: {EXPERIMENTS[experiment].sentence}{self._judges(experiment)}")
            case ExperimentEnded():
                if event.outcome != "done":
                    self._not_done.add(experiment)
                if experiment in self._started:
                    seconds = self._now() - self._started.pop(experiment)
                    reason = f": {printable(without_exits(event.reason, self._exits))}" if event.reason else ""
                    self._line(f"{experiment}: {event.outcome} after {seconds:.1f} s{reason}")
            case ProcessExited():
                self._exits.append(exit_text(event))  # the result has it
            case ReportReceived():
                self._reports += 1
            case _:
                pass

    def tick(self) -> None:
        """Shows the elapsed time, the time that is left, and what runs."""
        running = f"; running: {', '.join(self._started)}" if self._started else ""
        self._view.status(f"{self._elapsed()} {self._left()}{running}; {self._reports} health reports")

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            number = len({one for each in self._judged.values() for one in each})
            self._line(f"level {self._level}: {number} requirement{'s' if number != 1 else ''}, {self._left()}")

    def _left(self) -> str:
        left = self._planned - (self._now() - self._began)
        return f"about {left:.0f} s left" if left >= 1 else "more time than usual"

    def _elapsed(self) -> str:
        return f"{self._now() - self._began:6.1f} s "

    def _judges(self, experiment: str) -> str:
        found = self._judged.get(experiment, ())
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return f" For {', '.join(found[:_SHOWN])}{more}." if found else ""

    def _line(self, text: str) -> None:
        self._view.line(f"{self._elapsed()} {text}")


def judged_by(run: DriverRun, only: Sequence[str] = ()) -> Mapping[str, Sequence[str]]:
    """The requirements that a run judges by each experiment, in the order of the ledger."""
    found: dict[str, list[str]] = {}
    for one in requirements().values():
        if one.is_judged(run.level, run.profile.subject) and (not only or one.id in only):
            checks = (check for check in CHECKS.values() if check.requirement == one.id)
            for name in {name for check in checks for name in check.experiments}:
                found.setdefault(name, []).append(one.id)
    return found


# Where progress is shown: a terminal with a status line at its end, or plain lines.

_TICK = 1.0
_PAUSE = 10
"""Ticks without a line after which plain lines have the state."""


class TerminalView:
    """Lines, and a status line below them that changes."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def line(self, text: str) -> None:
        """Prints a line, folded at words, above the status."""
        self._live.console.print(Text(text), highlight=False)

    def status(self, text: str) -> None:
        """Replaces the status, which is cut at the width of the terminal."""
        self._live.update(Text(text, style="bold", no_wrap=True, overflow="ellipsis"), refresh=True)


class PlainView:
    """Lines without colors, each at once."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._ticks = 0

    def line(self, text: str) -> None:
        """Writes a line."""
        self._ticks = 0
        self._write(text)

    def status(self, text: str) -> None:
        """Writes the state, if there was no line for a while."""
        self._ticks += 1
        if self._ticks >= _PAUSE:
            self.line(text)


@contextmanager
def view_on(console: Console) -> Iterator[View]:
    """The view for this console. The status disappears at the end."""
    if not console.file.isatty() or console.is_dumb_terminal:
        yield PlainView(lambda line: print(line, file=console.file, flush=True))
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield TerminalView(live)


@asynccontextmanager
async def ticking(tick: Callable[[], None]) -> AsyncIterator[None]:
    """Calls `tick` once a second."""

    async def always() -> None:
        while True:
            await asyncio.sleep(_TICK)
            tick()

    task = asyncio.create_task(always())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


# The flags of `drahealth check` as a driver profile, and a driver profile as flags.

FLAGS: Mapping[str, tuple[str, ...]] = {
    "--device-plugin": ("driver", "kind"),
    "--env": ("driver", "environment"),
    "--api-server": ("api-server", "kind"),
    "--kubernetes": ("api-server", "kubernetes"),
    "--driver-name": ("driver", "name"),
    "--registry-dir": ("driver", "running", "registry-dir"),
    "--kubeconfig": ("driver", "running", "kubeconfig"),
    "--node-name": ("driver", "running", "node-name"),
    "--claim": ("claim", "manifests"),
    "--cdi-dir": ("driver", "running", "cdi-dirs"),
    "--sandbox": ("sandbox",),
    "--private": ("sandbox", "private"),
    "--sequential": ("abilities", "several-processes"),
}
"""The flags that describe the driver, with their keys in a driver profile. A flag is after that of an outer key."""
_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "--device-plugin": lambda _: "device-plugin",
    "--env": lambda words: dict(map(_variable, words)),
    "--api-server": lambda text: api_server_kind(text),
    "--kubernetes": parse_version,
    "--registry-dir": Path.absolute,
    "--claim": lambda path: [path],
    "--sandbox": lambda _: {},
    "--private": lambda paths: list(map(str, paths)),
    "--sequential": lambda _: False,
}
"""The values of these flags as the profile has them."""
_SWITCHES = ("--device-plugin", "--sandbox", "--sequential")
_OF_RUNNING = {"--kubeconfig": "kubeconfig", "--node-name": "node_name", "--cdi-dir": "cdi_dir"}
"""The flags that are only for a running driver, with the placeholder for others."""
_OF_STARTED = ("--env", "--driver-name", "--api-server", "--sandbox")


def run_of(flags: Mapping[str, Any]) -> DriverRun:
    """The run of the flags of `drahealth check`, by the names of its parameters. Raises ConfigurationError."""
    values = {flag: flags.get(flag[2:].replace("-", "_")) for flag in FLAGS}
    given = {flag: value for flag, value in values.items() if value and (flag, value) != ("--api-server", "memory")}
    command, socket = target_of(flags.get("command") or (), values["--registry-dir"])
    _check(given, command, socket)
    data: dict[str, Any] = {"driver": {"command": command} if command else {}}
    data["driver"] |= {"running": {"socket": socket}} if socket else {}
    for flag, value in given.items():
        section, (*outer, key) = data, FLAGS[flag]
        for name in outer:
            section = section.setdefault(name, {})
        section[key] = _VALUES[flag](value) if flag in _VALUES else value
    try:
        profile = profile_of(data)
    except FileError as error:
        where, what = error.problems[0].where, error.problems[0].what
        flag = next((flag for flag, path in reversed([*FLAGS.items()]) if where.startswith(".".join(path))), "")
        raise ConfigurationError(f"{flag}: {what}" if flag else what, "see `drahealth check --help`") from None
    check_placeholders([*command, *profile.driver.environment.values()])
    check_kubeconfig(profile)
    return DriverRun(
        profile,
        claim=_claim(profile.claim.manifests[0]) if profile.claim.manifests else (),
        only=experiments_for(flags.get("requirement") or ()),
        deadline=flags.get("deadline", DEADLINE),
        evidence=flags.get("evidence"),
        redact=flags.get("redact", True),
    )


def _check(given: Mapping[str, Any], command: Sequence[str], socket: Path | None) -> None:
    """Raises ConfigurationError for flags that contradict each other, and for a driver that does not exist."""
    registry_dir, is_plugin = given.get("--registry-dir"), "--device-plugin" in given
    running = registry_dir or socket
    if bool(command) == bool(running):
        raise ConfigurationError(
            "a command and a running driver exclude each other" if running else "missing driver",
            "use `drahealth check -- COMMAND...`, `drahealth check SOCKET` or `drahealth check --registry-dir DIR`",
        )
    if registry_dir and not registry_dir.is_dir():
        raise ConfigurationError(
            f"--registry-dir {registry_dir} is not a directory", "start the kubelet or the driver first"
        )
    if command and "{" not in command[0] and shutil.which(command[0]) is None:
        raise _not_runnable(command, device_plugin=is_plugin)
    for flag, placeholder in _OF_RUNNING.items():
        if command and flag in given:
            raise ConfigurationError(
                f"{flag} is only for a running driver", f"use {{{placeholder}}} in the driver's command line"
            )
    for flag in _OF_STARTED:
        if running and flag in given:
            raise ConfigurationError(
                f"{flag} is for a driver that drahealth starts", "leave it out for a driver that is already running"
            )
    if is_plugin and running:
        raise ConfigurationError(
            "drahealth cannot check a device plugin that already runs",
            "use `drahealth check --device-plugin -- COMMAND...`, which starts it",
        )
    if is_plugin and ("--claim" in given or "--driver-name" in given):
        raise ConfigurationError("--claim and --driver-name are for DRA drivers", "leave them out")
    if "--private" in given and "--sandbox" not in given:
        raise ConfigurationError("--private needs --sandbox", "pass --sandbox, or remove --private")
    if "--kubernetes" in given and given.get("--api-server") != "real":
        raise ConfigurationError(
            "--kubernetes needs --api-server real", "pass --api-server real, or remove --kubernetes"
        )


def _claim(path: Path) -> tuple[Object, ...]:
    """The claims of a file, and the objects that they need. Raises ConfigurationError."""
    try:
        found = claim_objects([path])
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", "pass another --claim file") from None
    except FileError as error:
        raise ConfigurationError(f"{path}, {error.problems[0]}", "correct the claim file") from None
    if not any(one["kind"] == CLAIMS.kind for one in found):
        raise ConfigurationError(f"{path} has no ResourceClaim", "add the claim to prepare")
    return found


def rerun_command(run: DriverRun, command: Sequence[str] = ()) -> str:
    """The command that repeats a part of a run, without the values of variables, which can be secrets.

    `command` replaces that of the driver.
    """
    words = ["drahealth", "check", "--requirement", "REQUIREMENT"]
    changed = run.profile.model_dump(by_alias=True, exclude_defaults=True)
    for flag, path in FLAGS.items():
        value: Any = changed
        for key in path:
            value = value.get(key) if value is not None else None
        if value is None:
            continue
        if flag in _SWITCHES:
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [f"{flag}={name}=..." for name in value]
        else:
            words += [f"{flag}={one}" for one in (value if isinstance(value, tuple) else (value,))]
    words += [f"--deadline={run.deadline:g}"] if run.deadline != DEADLINE else []
    driver = run.profile.driver
    words += [str(driver.running.socket)] if driver.running and driver.running.socket else []
    return join([*words, *(["--", *(command or driver.command)] if driver.command else [])])


def api_server_kind(text: str) -> ApiServerKind | Literal["none"]:
    """The value of --api-server. Raises ConfigurationError."""
    try:
        found: ApiServerKind | Literal["none"] = choice(*get_args(ApiServerKind), "none")(text)
    except ValueError as error:
        raise ConfigurationError(f"--api-server {error}, got {text!r}", "the default is memory") from None
    return found


def _not_runnable(command: Sequence[str], *, device_plugin: bool) -> ConfigurationError:
    if len(command) == 1 and command[0].endswith(".sock"):
        running = "pass the registration socket of a running driver, or `-- COMMAND...`"
        started = "pass `-- COMMAND...`, because a check of a device plugin must start it"
        return ConfigurationError(f"there is no socket {command[0]}", started if device_plugin else running)
    hint = "pass the path of an executable program"
    if len(command) == 1 and not device_plugin:
        hint += ", or the registration socket of a running driver"
    return ConfigurationError(f"cannot run {command[0]}", hint)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigurationError(f"--env must be NAME=VALUE, got {text!r}", "write --env NAME=VALUE")
    return name, value


def target_of(words: Sequence[str], registry_dir: Path | None) -> tuple[tuple[str, ...], Path | None]:
    """The command and the socket from the words of the command line: one word that is a socket is a running driver."""
    if registry_dir or not words:
        return tuple(words), None
    if len(words) == 1:
        with suppress(OSError):
            if stat.S_ISSOCK(Path(words[0]).stat().st_mode):
                return (), Path(words[0]).absolute()
    return tuple(words), None


def experiments_for(names: Sequence[str]) -> frozenset[str]:
    """The experiments that the checks of these requirements need; empty for no requirement, which stands for all."""
    return needed_experiments(check for check in CHECKS.values() if check.requirement in names)


# `drahealth report`: a page, a badge or a text from the results of earlier runs.

MOST = 8
"""The most results side by side: more columns are not readable."""


def write_files(
    paths: Sequence[Path],
    *,
    html: str | None = None,
    summary: str | None = None,
    badge_file: str | None = None,
    conformance: str | None = None,
    about: Sequence[str] = (),
) -> None:
    """Reads the results, and writes the files. Raises ConfigurationError."""
    if not paths:
        raise ConfigurationError(
            "missing argument RESULT", "pass files of `--report` or `--evidence`, or directories of certificates"
        )
    if not (html or summary or badge_file or conformance):
        hint = "pass --html FILE, --summary FILE, --badge FILE or --conformance FILE"
        raise ConfigurationError("there is nothing to write", hint)
    implementation = _implementation(about)
    for name in (html, summary, badge_file, conformance):
        check_output_file(name)
    files = read_files(paths)
    columns, reports = files.columns(), list(files.reports.values())
    if len(columns) > MOST:
        raise ConfigurationError(f"at most {MOST} results fit side by side, got {len(columns)}", "pass fewer files")
    for option, file in (("--summary", summary), ("--badge", badge_file), ("--conformance", conformance)):
        if file and len(reports) != 1:
            raise ConfigurationError(f"{option} needs exactly one report, got {len(reports)}", "use --html for several")
    if summary:
        Path(summary).write_text(pull_request_text(reports[0]), encoding="utf-8")
    if badge_file:
        Path(badge_file).write_text(badge(reports[0]), encoding="utf-8")
    if conformance:
        one = reports[0]
        if not isinstance(one, CheckReport | KubeletReport) or one.certificate is None:
            raise ConfigurationError(f"{paths[0]} is no certificate", "pass the directory of a certificate")
        import yaml

        content = yaml.safe_dump(conformance_report(one, implementation), sort_keys=False, allow_unicode=True)
        Path(conformance).write_text(content, encoding="utf-8")
    if html:
        Path(html).write_text(page_of(columns), encoding="utf-8")
    for name, one in files.reports.items():
        if isinstance(one, CheckReport | KubeletReport):
            line = f"{name}: verdicts {NOT_JUDGED_AGAIN}"
            line += "; the run did not reach its end" if one.interrupted else ""
            standard_output().print(line, soft_wrap=True, markup=False, highlight=False)


def _implementation(about: Sequence[str]) -> dict[str, str]:
    """What a project says of itself, from texts such as version=1.2. Raises ConfigurationError."""
    found = {}
    for one in about:
        name, is_set, value = one.partition("=")
        if name not in ABOUT or not is_set or not value:
            raise ConfigurationError(
                f"--implementation must be KEY=VALUE with a key of {', '.join(ABOUT)}, got {one!r}",
                "for example --implementation version=1.2.0",
            )
        found[name] = value
    return found


# `drahealth check` and `drahealth judge`: run or read, judge, show, write the reports.

_SUBJECTS: dict[SubjectKind, str] = {"dra-driver": "DRA driver", "device-plugin": "device plugin"}


@dataclass(frozen=True)
class Outputs:
    """Where the result goes, besides standard output."""

    report: str | None = None
    junitxml: str | None = None
    waiver_file: Path | None = None
    requirements: Sequence[str] = ()
    """The only requirements to judge; empty for all."""
    html: str | None = None

    def check(self) -> None:
        """Raises ConfigurationError for an unwritable file, invalid waivers or an unknown requirement."""
        for name in (self.report, self.junitxml, self.html):
            check_output_file(name)
        _ = self.waivers
        for name in self.requirements:
            if name not in requirements():
                raise ConfigurationError(
                    f"unknown requirement for drivers and device plugins {name!r}", near(name, requirements())
                )

    def check_level(self, level: Level, subject: SubjectKind) -> None:
        """Raises ConfigurationError for a requirement that runs of this level on such a subject do not judge."""
        for name in self.requirements:
            if requirements()[name].binds != subject:
                other = "pass --device-plugin" if subject == "dra-driver" else "leave out --device-plugin"
                raise ConfigurationError(f"{name} does not apply to a {_SUBJECTS[subject]}", other)
            if not requirements()[name].is_judged_at(level):
                scope = requirements()[name].scope
                raise ConfigurationError(
                    f"{name} is not judged at level {level}", f"use `drahealth certify --level {scope}`"
                )

    @cached_property
    def waivers(self) -> tuple[Waiver, ...]:
        """The waivers, read once: the file can change or go during a run. Raises ConfigurationError."""
        try:
            return read_waivers(self.waiver_file) if self.waiver_file else ()
        except OSError as error:
            raise ConfigurationError(
                f"cannot read {self.waiver_file}: {error.strerror}", "pass another file to --waivers"
            ) from None


def check(run: DriverRun, outputs: Outputs, rerun: str = "") -> int:
    """Runs the experiments, and judges them. Returns the exit code.

    `rerun` is the command that repeats a part of the run; by default, the one of `drahealth check`.
    """
    outputs.check()
    outputs.check_level(run.level, run.profile.subject)
    evidence = run_with_progress(run, outputs.requirements)
    if rerun:
        return _conclude(evidence, outputs, rerun, rerun)
    shared = rerun_command(run, [word.replace("{cwd}", ".") for word in evidence.header.command])
    return _conclude(evidence, outputs, rerun_command(run), shared)


def run_with_progress(asked: DriverRun, only: Sequence[str] = ()) -> Evidence:
    """Runs the experiments, and shows their progress on standard error. SIGTERM and SIGINT end the run.

    `only` are the IDs of the requirements that the user selected; empty for all.
    """
    from drahealth.suites.driver_checks.fault_adapters import FaultAdapters
    from drahealth.suites.driver_checks.run_experiments import run_experiments

    async def run(progress: Progress) -> Evidence:
        async with ticking(progress.tick):
            return await run_experiments(asked, progress, adapters=FaultAdapters)

    with view_on(Console(stderr=True)) as view:
        return run_terminable(run(Progress(asked, view, only)))


def judge_file(path: Path, outputs: Outputs) -> int:
    """Judges evidence again. Returns the exit code. Raises ConfigurationError if it cannot be read."""
    outputs.check()
    try:
        evidence = read_evidence(path)
    except EvidenceError as error:
        raise ConfigurationError(f"{path}, {error}", "pass evidence that `drahealth check --evidence` wrote") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", "pass an evidence file") from None
    outputs.check_level(evidence.header.level, evidence.header.subject)
    return _conclude(evidence, outputs, *[f"drahealth judge {quote(str(path))} --requirement REQUIREMENT"] * 2)


def show_plan(run: DriverRun, outputs: Outputs) -> None:
    """Prints the experiments, their costs, and why some of them do not run. Raises as `check`."""
    outputs.check()
    outputs.check_level(run.level, run.profile.subject)
    console = standard_output()
    for experiment, excluded in plan(run):
        cost = f"{experiment.seconds:4g} s" if not excluded else "  not run"
        console.print(f"{cost:9}  {experiment.process:10} {experiment.name}: {experiment.sentence}", soft_wrap=True)
        if excluded:
            console.print(f"{'':9}  {'':10} reason: {excluded}", soft_wrap=True)
    usual = "40 to 50 s for a driver" if run.profile.subject == "dra-driver" else "about 20 s for a device plugin"
    console.print(f"\nThe processes run side by side: {usual} that answers at once.", soft_wrap=True)


def _conclude(evidence: Evidence, outputs: Outputs, rerun: str, shared_rerun: str) -> int:
    """Judges evidence, prints the result and writes the files. `shared_rerun` is for the files: without secrets."""
    today = datetime.now(UTC).date()
    summary = summarize(evidence, waivers=outputs.waivers, today=today, only=outputs.requirements)
    show(summary, standard_output(), command_as_called(rerun))
    report = check_report(summary, evidence, shared_rerun)
    if outputs.report:
        Path(outputs.report).write_text(to_json(report))
    if outputs.html:
        Path(outputs.html).write_text(page(report, evidence), encoding="utf-8")
    if outputs.junitxml:
        Path(outputs.junitxml).write_text(to_junit(report))
    write_annotations(summary)
    return summary.exit_code


def write_annotations(summary: Summary) -> None:
    """Prints the annotations in GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotations(summary):
            print(line)  # noqa: T201
