"""Runs of scenarios for tests: a report with the histories that it names."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from drahealth.proto.events import Record
from drahealth.proto.history import Header, HistoryFile, dump_lines
from drahealth.suites.report.document import Outcome, to_json
from drahealth.suites.report.document import ScenarioResult as Scenario
from drahealth.suites.report.run_report import Run


def as_file(records: Sequence[Record]) -> HistoryFile:
    return HistoryFile(Header("0.1.0", "kep", "2026-11-22T09:00:00+00:00", 1000), list(records))


def write_run(path: Path, recorded: Mapping[str, Sequence[Record]], outcome: Outcome = "passed") -> Path:
    """Writes the report, and the histories to a folder beside it. Returns the path of the report."""
    run = Run("reference", "the reference")
    folder = path.with_suffix("")
    folder.mkdir()
    for name, records in recorded.items():
        found = as_file(records)
        file = folder / f"{name}.jsonl"
        file.write_text("".join(f"{line}\n" for line in dump_lines(found.header, records)))
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        scenario = Scenario(name, name.replace("_", " "), ("STATUS-01",), outcome, 1)
        run.take({**asdict(scenario), "history_file": f"{folder.name}/{file.name}", "history_sha256": digest})
    path.write_text(to_json(run.report(ended="2026-11-22T09:00:00+00:00")))
    return path
