"""suites/judging/reproductions.json: what runs on a real kubelet showed of known issues without a report upstream."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from known_issues_page import REAL, Results

from drahealth.manager.releases import DEFAULT_VERSION, patch_level
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.histories import format_history
from drahealth.suites.judging.ledger import KnownIssue
from drahealth.suites.judging.reproductions import FailedCheck, Reproduction, unreported
from drahealth.suites.report.document import RunReport, ScenarioResult
from drahealth.suites.report.result_files import read_histories, read_run_report
from drahealth.suites.run.scenario import scenarios, source_of


def recorded(
    known: Mapping[str, Reproduction], results: Results, reports: Sequence[Path], source: Path | None
) -> dict[str, Reproduction]:
    """The reproductions of all issues without a report upstream.

    A scenario and a release come from the published results, the observed values from the reports of runs on this
    release, and the lines from a source tree of it. Those that are `known` stay, if nothing replaces them. Raises
    ConfigurationError for a report of another target, or without histories.
    """
    found = {}
    for name in unreported():
        if (chosen := _chosen(name, results)) is not None:
            old = known.get(name)
            is_same = old and (old.release, old.scenario) == (chosen.release, chosen.scenario)
            found[name] = old if old and is_same else chosen
    for path in reports:
        report = read_run_report(path)
        if report.target != "kubelet" or not report.conditions.kubelets:
            raise ConfigurationError(f"{path} is no run on a real kubelet", "pass reports of --target kubelet")
        _observe(found, report, path)
        for name, one in found.items():
            if source and (one.release,) == report.conditions.kubelets:
                found[name] = replace(one, lines=dict(_lines(unreported()[name], source)))
    return found


def _chosen(name: str, results: Results) -> Reproduction | None:
    """The newest release that showed the issue; of its scenarios the shortest of those with the fewest other issues.

    Without a result that shows it, the scenario that the ledger names, on the default release.
    """
    shown = [
        (target.removeprefix(REAL), scenario, others)
        for target, outcomes in results.items()
        if target.startswith(REAL)
        for scenario, (_, *others) in outcomes.items()
        if name in others
    ]
    if not shown:
        titles = {issue.scenario for issue in unreported()[name]}
        named = [one.name for one in scenarios() if one.title in titles]
        return Reproduction(DEFAULT_VERSION, named[0]) if named else None
    release = max((one for one, _, _ in shown), key=patch_level)
    mine = [(len(others), len(source_of(scenario)), scenario) for one, scenario, others in shown if one == release]
    return Reproduction(release, min(mine)[2])


def _observe(found: dict[str, Reproduction], report: RunReport, path: Path) -> None:
    histories = read_histories(report, path.parent)
    for name, one in found.items():
        for result in report.scenarios:
            is_it = (result.name, (one.release,)) == (one.scenario, report.conditions.kubelets)
            if is_it and any(violation.issue == name for violation in result.violations):
                if result.key not in histories:
                    raise ConfigurationError(f"{path} has no histories", "run the scenarios with --histories")
                history = format_history(histories[result.key].records)
                found[name] = _with_values(one, name, result, history, report)


def _with_values(one: Reproduction, name: str, result: ScenarioResult, history: str, report: RunReport) -> Reproduction:
    mine = [violation for violation in result.violations if violation.issue == name]
    about = report.conditions
    return replace(
        one,
        checks=tuple(FailedCheck(found.requirement, found.assertion, found.expected, found.seen) for found in mine),
        history=history,
        started=about.started,
        drahealth=about.versions["drahealth"],
        system=" ".join(about.host[key] for key in ("system", "release", "machine")),
    )


def _lines(issues: Sequence[KnownIssue], source: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """The lines of the function or the type that an issue names, in a source tree of Kubernetes."""
    for link in dict.fromkeys(issue.link for issue in issues):
        path, _, rest = link.partition(", ")
        name = re.match(r"\w+", rest)
        file = source / path
        if name is None or "://" in link or not file.is_file():
            continue
        begin = re.compile(rf"(func (\([^)]*\) )?{name[0]}\(|type {name[0]} )")
        text = file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(text, 1):
            if begin.match(line):
                last = next(end for end in range(number, len(text) + 1) if text[end - 1] in ("}", ")"))
                yield link, (number, last)
                break
