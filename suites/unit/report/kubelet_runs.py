"""Runs of all scenarios on a kubelet, and certificates of them, without a kubelet."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from drahealth.suites.commands.certificate_files import HISTORIES, RUN, certificate_texts
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.report.document import Conditions, KubeletReport, RunReport, ScenarioResult, to_json
from drahealth.suites.report.kubelet_certificate import certify
from drahealth.suites.report.page import page_of
from drahealth.suites.report.page_view import run_column
from drahealth.suites.report.run_report import Run

ENDED = "2026-11-22T09:00:00+00:00"
ISSUE = {"outcome": "known issue", "known_issues": ("B-01",), "broken": ("STATUS-13",)}
"""The fields of a result that shows B-01."""


def results() -> Iterator[ScenarioResult]:
    """Every requirement of the ledger passes, in a scenario of its own."""
    for name in requirements():
        yield ScenarioResult(f"test_{name}", name, (name,), "passed", 1.0, id=f"drahealth.kep::{name}")


def finished(
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    profile: str = "v1.37",
    kubelets: tuple[str, ...] = ("1.37.2",),
    **of_run: Any,
) -> RunReport:
    """The report of a run in which all passed, but `changes` by requirement. `of_run` are fields of the run."""
    changes = changes or {}
    found = [replace(one, **changes.get(one.title, {})) for one in results()]
    conditions = Conditions(
        started=ENDED, profile=profile, kubernetes=kubelets[0] if kubelets else None, kubelets=kubelets
    )
    run = Run("kubelet", "a real kubelet", conditions=conditions, planned=len(found), **of_run)
    for one in found:
        run.take(asdict(one))
    return run.report(ended=ENDED)


def certified(run: RunReport, **given: Any) -> KubeletReport:
    """Its certificate, judged by the release."""
    return certify(run, **{"judged_by": "release", "evidence_sha256": "ab" * 32, **given})


def written(folder: Path, run: RunReport, **given: Any) -> KubeletReport:
    """A certificate in a folder, as `certify --kubelet` writes it; the first scenario has a history."""
    (folder / HISTORIES).mkdir(parents=True)
    history = folder / HISTORIES / "a.jsonl"
    history.write_text("a history\n")
    first, *others = run.scenarios
    digest = hashlib.sha256(history.read_bytes()).hexdigest()
    first = replace(first, history_file=f"{HISTORIES}/a.jsonl", history_sha256=digest)
    run = replace(run, scenarios=(first, *others))
    (folder / RUN).write_text(to_json(run))
    evidence = hashlib.sha256((folder / RUN).read_bytes()).hexdigest()
    report = certified(
        run, **{"evidence_sha256": evidence, "artifact": "kubelet", "artifact_sha256": "cd" * 32, **given}
    )
    for name, text in certificate_texts(report, page_of([run_column(report)])).items():
        (folder / name).write_text(text)
    return report
