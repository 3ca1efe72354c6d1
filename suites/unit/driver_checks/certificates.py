"""Certificates for tests: the files of a run, written from evidence by hand."""

import hashlib
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path

from drahealth.proto.events import ExperimentEnded
from drahealth.suites.commands.certify_run import judged, write_files
from drahealth.suites.driver_checks.evidence import Evidence, EvidenceWriter
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.summary import Summary
from drahealth.suites.driver_checks.verdicts import Waiver
from drahealth.suites.report.document import CheckReport
from drahealth.suites.report.result_files import EVIDENCE
from drahealth.suites.unit.driver_checks.healthy_run import Edit, healthy_run

TODAY = date(2026, 11, 22)


def core_run(change: Edit = lambda _, event: event, **ends: ExperimentEnded) -> Evidence:
    """The evidence of a healthy driver at level core, with changes. No experiment of certification applies."""
    absent = {
        name: ExperimentEnded("not applicable", "not a part of this test")
        for name, experiment in EXPERIMENTS.items()
        if experiment.scope != "check"
    }
    run = healthy_run(change, ends=absent | ends)
    return replace(run, header=replace(run.header, level="core", profile="gpu", profile_sha256="ab" * 32))


def certified(evidence: Evidence, *waivers: Waiver, digest: str = "00" * 32) -> tuple[Summary, CheckReport]:
    """The result of this evidence."""
    return judged(evidence, digest, waivers, TODAY, "drahealth certify gpu.toml --requirement REQUIREMENT")


def written(folder: Path, evidence: Evidence, *waivers: Waiver) -> CheckReport:
    """Writes the certificate of this evidence to a folder."""
    folder.mkdir(exist_ok=True)
    with closing(EvidenceWriter(evidence.header, folder / EVIDENCE)) as writer:
        for record in evidence.records:
            writer.add(record.at, record.experiment, record.what)
        if evidence.complete:
            writer.finish()
    digest = hashlib.sha256((folder / EVIDENCE).read_bytes()).hexdigest()
    _, report = certified(evidence, *waivers, digest=digest)
    write_files(folder, report, evidence)
    return report
