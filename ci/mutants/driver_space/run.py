"""Wrong drivers of a seed: does `drahealth certify` catch them?

    ci/mutants/check-generated-drivers [--count N] [--seed N] [--level LEVEL] [-n N] [--write]

The drivers are made from a fault model (ci/mutants/driver_space/model.py). Each one runs as a real process in a run
of `certify`, and N runs are side by side: they mostly wait. A driver is caught if a requirement has the verdict FAIL.
With level full, a driver has a run of level core first, and a run of level full only if core does not catch it: full
has all experiments of core. The evidence of each run is kept, and judged again as long as the experiments and the model
stay the same. So a run that was interrupted continues. --write writes the results to
ci/mutants/generated-drivers.json. Exits 1 if fewer than 95 % are caught, and 3 if a driver cannot be judged.
--right certifies drivers that are unusual, but right, and exits 1 if one of them has a violation.
"""

import argparse
import asyncio
import gzip
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal

from drahealth.proto.events import ProcessExited
from drahealth.suites.commands.certify_run import DEADLINES, CertifiedLevel
from drahealth.suites.commands.ending import run_terminable
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.evidence import Evidence, load_evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS, REAL_KUBELET
from drahealth.suites.driver_checks.fault_adapters import FaultAdapters
from drahealth.suites.driver_checks.mutants.driver import FAULTS
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.profile.file import profile_of
from drahealth.suites.driver_checks.run_experiments import run_experiments
from drahealth.suites.driver_checks.summary import Summary, summarize
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.errors import HarnessError
from driver_space import driver as wrong_drivers
from driver_space import right as right_drivers
from driver_space.model import Sample, WrongDriver, sample

HERE = Path(__file__).resolve().parent
RESULTS = HERE.with_name("generated-drivers.json")
WANTED = 0.95
"""The share of wrong drivers that must be caught."""
GRACE = 60.0
"""Seconds that a run has after its deadline."""

LEVELS: dict[str, tuple[CertifiedLevel, ...]] = {"core": ("core",), "full": ("core", "full")}
"""The levels of the runs of a wrong driver, one after the other until it is caught."""

Outcome = Literal["caught", "noted", "incomplete", "survived", "error"]
OUTCOMES: dict[Outcome, str] = {
    "caught": "violates a MUST",
    "noted": "violates only a SHOULD, and is certified",
    "incomplete": "is not certified, without a violation",
    "survived": "is certified",
    "error": "could not be judged",
}


@dataclass(frozen=True, slots=True)
class Result:
    """What `certify` says of a wrong driver."""

    outcome: Outcome
    requirements: tuple[str, ...] = ()
    """Those that it violates; for `incomplete`, those that were not tested."""
    seen: str = ""
    """The first finding."""
    seconds: float = 0.0
    level: str = ""
    """That of the run."""


def result_of(summary: Summary, seconds: float) -> Result:
    """The result of a run."""
    found = [one for one in summary.judgements if one.verdict is Verdict.FAIL]
    musts = [one for one in found if one.requirement.level == "MUST"]
    if errors := [one for one in summary.judgements if one.verdict is Verdict.ERROR]:
        name, finding = next((n, f) for n, f in errors[0].findings.items() if f.verdict is Verdict.ERROR)
        return Result("error", (errors[0].requirement.id,), f"{name}: {finding.seen}", seconds)
    if found:
        first = (musts or found)[0]
        seen = next(f"{name}: {one.seen}" for name, one in first.findings.items() if one.verdict is Verdict.FAIL)
        return Result("caught" if musts else "noted", tuple(one.requirement.id for one in found), seen, seconds)
    missing = [
        one
        for one in summary.judgements
        if one.verdict is Verdict.NOT_TESTED and one.requirement.level == "MUST" and not _needs_kubelet(one.findings)
    ]
    if missing:
        seen = next(
            (f"{name}: {one.seen}" for name, one in missing[0].findings.items() if one.verdict is Verdict.NOT_TESTED),
            "",
        )
        return Result("incomplete", tuple(one.requirement.id for one in missing), seen, seconds)
    return Result("survived", seconds=seconds)


def _needs_kubelet(checks: Iterable[str]) -> bool:
    return any(not REAL_KUBELET.isdisjoint(CHECKS[name].experiments) for name in checks)


@dataclass(frozen=True, slots=True)
class Trial:
    """A driver to certify."""

    name: str
    sentence: str
    command: tuple[str, ...]
    has_faults: bool = True
    """Whether its driver profile has faults."""


def wrong(driver: WrongDriver) -> Trial:
    """The trial of a wrong driver."""
    return Trial(driver.name, driver.sentence, wrong_drivers.command(driver))


def right_trials() -> list[Trial]:
    """The trials of the unusual drivers that are right."""
    return [
        Trial(name, one.__doc__ or "", right_drivers.command(name), name != right_drivers.WITHOUT_FAULTS)
        for name, one in right_drivers.RIGHT.items()
    ]


def certified(trial: Trial, level: CertifiedLevel, *, real_kubelet: bool, kept: Path | None = None) -> Result:
    """Certifies a driver in this process, or judges the evidence of it that was kept."""
    began = time.monotonic()
    if kept and kept.exists():
        evidence = load_evidence(gzip.decompress(kept.read_bytes()))
        return _judged(evidence, max((one.at for one in evidence.records), default=0.0))
    profile = profile_of(
        {
            "driver": {
                "kind": "dra",
                "command": trial.command,
                "environment": {"PYTHONPATH": str(HERE.parent)},
            },
            "fault": FAULTS if trial.has_faults else (),
            "abilities": {"rolling-update": True, "faults": trial.has_faults},
        }
    )
    names = EXPERIMENTS.keys() if real_kubelet else EXPERIMENTS.keys() - REAL_KUBELET
    with tempfile.TemporaryDirectory(prefix="driver-space-") as made:
        written = Path(made, "evidence.jsonl")
        run = DriverRun(
            profile, level=level, deadline=DEADLINES[level], only=frozenset(names), evidence=written, redact=False
        )
        try:
            evidence = run_terminable(run_experiments(run, adapters=FaultAdapters))
        except HarnessError as error:
            return Result("error", seen=str(error), seconds=time.monotonic() - began)
        result = _judged(evidence, time.monotonic() - began)
        if kept and evidence.complete and result.outcome != "error":
            part = kept.with_suffix(".part")
            part.write_bytes(gzip.compress(written.read_bytes()))
            part.rename(kept)
    return result


def _judged(evidence: Evidence, seconds: float) -> Result:
    crashed = next((exit_text(one.what) for one in evidence.of(ProcessExited) if one.what.exit_code == 1), "")
    if crashed:  # an error in the code of the wrong driver
        return Result("error", seen=crashed, seconds=seconds)
    return result_of(summarize(evidence, today=date.max), seconds)


async def _in_a_process(trial: Trial, words: Sequence[str], limit: float) -> Result:
    """Certifies it in a process of its own, so that its judge does not delay others."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "driver_space.run", "--one", json.dumps(asdict(trial)), *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(HERE.parent)},
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), limit)
    except (TimeoutError, asyncio.CancelledError) as error:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)  # it ends what it has started
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE / 2)
        with suppress(ProcessLookupError):
            process.kill()
        if isinstance(error, asyncio.CancelledError):
            raise
        return Result("error", seen=f"the run did not end within {limit:g} s")
    lines = output.decode().splitlines()
    try:
        return Result(**json.loads(lines[-1]))
    except (IndexError, ValueError, TypeError):
        last = (errors.decode().splitlines() or ["no output"])[-1]
        return Result("error", seen=f"exit code {process.returncode}: {last}")


# All drivers of a seed.


def _digest() -> str:
    """Changes with the model and with the experiments, but not with the checks."""
    folders = (HERE, HERE.parents[2] / "suites" / "driver_checks")
    files = sorted(path for folder in folders for path in folder.rglob("*.py") if not path.match("*_checks.py"))
    files = [path for path in files if path != Path(__file__).resolve()]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


async def _all(trials: Sequence[Trial], options: argparse.Namespace, kept: Path) -> dict[str, Result]:
    found: dict[str, Result] = {}
    slots = asyncio.Semaphore(options.number)
    levels = LEVELS[options.level][-1 if options.right else 0 :]
    words = ["--real-kubelet"] if options.real_kubelet else []

    async def one(trial: Trial) -> None:
        for level in levels:
            path = kept / level / f"{trial.name.replace('/', '-')}.jsonl.gz"
            path.parent.mkdir(exist_ok=True)
            async with slots:
                arguments = [*words, "--level", level, "--kept", str(path)]
                result = await _in_a_process(trial, arguments, DEADLINES[level] + GRACE)
            found[trial.name] = replace(result, level=level)
            if result.outcome == "caught":
                break
        violated = ", ".join(result.requirements[:6])
        _print(f"{result.outcome:10} {level:4} {result.seconds:4.0f} s  {trial.name}  {violated}")
        if (result.outcome == "survived") is not options.right:
            _print(f"{'':18}{trial.sentence}\n{'':18}{result.seen[:300]}")

    async with asyncio.TaskGroup() as group:
        for trial in trials:
            group.create_task(one(trial))
    return {trial.name: found[trial.name] for trial in trials}


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def document(options: argparse.Namespace, trials: Sequence[Trial], results: dict[str, Result]) -> dict[str, Any]:
    """The results as data."""
    violating = [one for one in results.values() if one.outcome in ("caught", "noted")]
    return {
        "drivers": len(trials),
        "seed": options.seed,
        "level": options.level,
        "outcomes": {name: sum(one.outcome == name for one in results.values()) for name in OUTCOMES},
        "caught at core": sum(one.outcome == "caught" and one.level == "core" for one in results.values()),
        "caught by": dict(Counter(id_ for one in violating for id_ in one.requirements).most_common()),
        "survivors": {
            one.name: {"fault": one.sentence, **_why(results[one.name])}
            for one in trials
            if results[one.name].outcome != "caught"
        },
    }


def _why(result: Result) -> dict[str, Any]:
    return {"outcome": result.outcome, "requirements": list(result.requirements), "seen": result.seen[:200]}


def main() -> int:
    """The command. Returns its exit code."""
    parser = argparse.ArgumentParser(
        "check-generated-drivers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200, help="number of wrong drivers (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="another seed has other drivers (default: 1)")
    parser.add_argument("--level", choices=list(DEADLINES), default="full", help="level of certify (default: full)")
    parser.add_argument("-n", dest="number", type=int, default=8, help="runs side by side (default: 8)")
    parser.add_argument("--list", action="store_true", help="only print the drivers")
    parser.add_argument("--only", metavar="TEXT", default="", help="only the drivers with this text in their names")
    parser.add_argument(
        "--right", action="store_true", help="the unusual drivers that are right, in place of wrong ones"
    )
    parser.add_argument("--real-kubelet", action="store_true", help="with the experiments on a real kubelet")
    parser.add_argument("--write", action="store_true", help=f"write the results to {RESULTS.name}")
    parser.add_argument("--kept", type=Path, metavar="PATH", help="directory of the evidence (default: in the cache)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        trial = Trial(**json.loads(options.one))
        result = certified(trial, options.level, real_kubelet=options.real_kubelet, kept=options.kept)
        _print(json.dumps(asdict(result)))
        return 0
    drawn = Sample((), 0) if options.right else sample(options.count, options.seed)
    trials = right_trials() if options.right else [wrong(one) for one in drawn.drivers]
    trials = [one for one in trials if options.only in one.name]
    if options.list:
        for one in trials:
            _print(f"{one.name}\n    {one.sentence}")
        return 0
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drahealth" / "generated-drivers"
    kept = options.kept or cache / f"{_digest()}{'-kubelet' if options.real_kubelet else ''}"
    kept.mkdir(parents=True, exist_ok=True)
    results = run_terminable(_all(trials, options, kept))
    numbers = Counter(one.outcome for one in results.values())
    for name, words in OUTCOMES.items():
        _print(f"{numbers[name]:5}  {name:10}  {words}")
    violating = numbers["caught"] + numbers["noted"]
    if options.right:
        return 3 if numbers["error"] else int(violating > 0)
    _print(
        f"{violating} of {len(trials)} wrong drivers have a violation; "
        f"{drawn.equivalent} more were drawn that cannot be told from a right one"
    )
    if options.write:
        RESULTS.write_text(json.dumps(document(options, trials, results), indent=1) + "\n")
    return 3 if numbers["error"] else int(violating < WANTED * len(trials))


if __name__ == "__main__":
    sys.exit(main())
