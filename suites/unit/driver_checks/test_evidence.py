"""Evidence in files: a cut or edited file never reads as a complete run."""

import json
import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.proto.events import ExperimentStarted
from drahealth.suites.driver_checks.evidence import (
    EvidenceError,
    EvidenceWriter,
    Redaction,
    load_evidence,
    read_evidence,
)
from drahealth.suites.errors import HarnessError
from drahealth.suites.unit.driver_checks.evidence_of import HEADER


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evidence") / "evidence.jsonl"
    with closing(EvidenceWriter(HEADER, path)) as writer:
        writer.add(0.5, "registration", ExperimentStarted("main"))
        writer.add(0.75, "claims", ExperimentStarted("main"))
        writer.finish()
    return path


def test_evidence_round_trips_through_its_file(file: Path) -> None:
    found = read_evidence(file)
    assert (found.complete, found.header, [record.experiment for record in found.records]) == (
        True,
        HEADER,
        ["registration", "claims"],
    )


def test_evidence_with_secrets_is_readable_by_its_user_only(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600


def test_evidence_without_secrets_has_the_mode_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("")
    EvidenceWriter(HEADER, tmp_path / "evidence.jsonl", Redaction(["host"])).close()
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_existing_file_is_not_overwritten(file: Path) -> None:
    with pytest.raises(FileExistsError):
        EvidenceWriter(HEADER, file)


@contextmanager
def limited_file_size(limit: int) -> Iterator[None]:
    """Files of this process cannot grow beyond this: stands for a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_is_an_error_of_the_harness(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl"
    with closing(EvidenceWriter(HEADER, path)) as writer, limited_file_size(path.stat().st_size):
        with pytest.raises(HarnessError):
            writer.add(0.5, "registration", ExperimentStarted("main"))
        with pytest.raises(HarnessError):
            writer.finish()


@given(st.data())
def test_evidence_that_was_cut_short_is_not_complete(file: Path, data: st.DataObject) -> None:
    lines = file.read_bytes()
    keep = data.draw(st.integers(lines.index(b"\n") + 1, len(lines) - 1))
    assert not reads_as_complete(lines[:keep])


@given(st.data())
def test_edited_evidence_is_rejected(file: Path, data: st.DataObject) -> None:
    lines = file.read_bytes()
    at = data.draw(st.integers(0, len(lines) - 2))
    byte = data.draw(st.integers(0x20, 0x7E).filter(lambda one: one != lines[at]))
    edited = lines[:at] + bytes([byte]) + lines[at + 1 :]
    assert not reads_as_complete(edited)


@given(st.binary(max_size=200))
def test_garbage_is_rejected(data: bytes) -> None:
    with pytest.raises(EvidenceError):
        load_evidence(data)


def reads_as_complete(data: bytes) -> bool:
    """Whether it is valid and complete. An edited closing line reads as a run that was cut short."""
    try:
        return load_evidence(data).complete
    except EvidenceError:
        return False


BEFORE_LEVELS = {"format", "drahealth", "started", "command", "api_server", "node", "experiments"}
"""The fields of a header that older versions wrote."""


def test_file_without_a_level_is_of_a_check_of_a_dra_driver(file: Path) -> None:
    first = json.loads(file.read_bytes().split(b"\n")[0])
    older = {name: value for name, value in first.items() if name in BEFORE_LEVELS}
    assert load_evidence(json.dumps(older).encode() + b"\n").header == HEADER


@pytest.mark.parametrize("field", ["level", "subject"])
def test_unknown_level_or_subject_is_an_error_in_line_1(file: Path, field: str) -> None:
    first = json.loads(file.read_bytes().split(b"\n")[0])
    with pytest.raises(EvidenceError, match=f"line 1: {field}"):
        load_evidence(json.dumps({**first, field: "gold"}).encode() + b"\n")


@pytest.mark.parametrize("at", ["1e999", "NaN", "true", '"1"', "null", "9" * 400])
def test_time_that_is_no_number_of_seconds_is_an_error_with_its_line(file: Path, at: str) -> None:
    header = file.read_bytes().split(b"\n")[0]
    line = f'{{"at": {at}, "experiment": "services", "event": "experiment-started", "process": "main"}}\n'
    with pytest.raises(EvidenceError, match="line 2: `at` must be a number of seconds"):
        load_evidence(header + b"\n" + line.encode())
