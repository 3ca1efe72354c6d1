"""History files: records round-trip, and lost records are reported."""

import json
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drahealth.proto.clock import SystemClock
from drahealth.proto.events import Record, Step
from drahealth.proto.history import (
    FORMAT,
    Header,
    HistoryError,
    HistoryFile,
    HistoryWriter,
    dump_lines,
    load_history,
    read_history,
)
from drahealth.suites.unit.proto.test_events import events

HEADER = Header("0.1.0", "kep", "2026-11-22T09:00:00+00:00", 812.5)
FIRST = (next(dump_lines(HEADER, [])) + "\n").encode()
STEP = b'{"at": 1.5, "event": "step", "text": "the node starts"}\n'
RECORD = Record(1.5, Step("the node starts"))
RECORDS = st.builds(Record, st.floats(0, 1e6).map(lambda at: round(at, 6)), events())


@given(st.lists(RECORDS, max_size=5))
@settings(max_examples=50)
def test_history_round_trips_through_its_lines(records: list[Record]) -> None:
    data = "".join(f"{line}\n" for line in dump_lines(HEADER, records)).encode()
    assert load_history(data) == HistoryFile(HEADER, records)


def test_header_has_version_profile_and_both_clocks() -> None:
    before = SystemClock().now()
    header = Header.make("kep", SystemClock())
    assert json.loads(next(dump_lines(header, []))).keys() == {"format", "drahealth", "profile", "started", "monotonic"}
    assert before <= header.monotonic + 1e-6


def test_each_record_is_in_the_file_at_once(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "h", HEADER)
    writer.add(RECORD)
    assert read_history(tmp_path / "h") == HistoryFile(HEADER, [RECORD])
    writer.close()


def test_history_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("mine")
    with pytest.raises(FileExistsError):
        HistoryWriter(tmp_path / "h", HEADER)


@contextmanager
def small_files() -> Iterator[None]:
    """A disk that takes the header and one record, and then is full.

    Not a fixture: pytest reports a test before it tears down fixtures, and its own output may be a file too.
    """
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(FIRST) + 60, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_history_ends_where_the_disk_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with small_files():
        writer = HistoryWriter(tmp_path / "h", HEADER)
        for _ in range(3):
            writer.add(RECORD)
    found = read_history(tmp_path / "h")
    assert (found.records, found.truncated) == ([RECORD], 3)
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]


@pytest.mark.parametrize("cut", range(1, len(STEP)))
def test_truncated_last_line_is_left_out_and_reported(cut: int) -> None:
    whole = cut == len(STEP) - 1  # only the end of the line is missing
    found = load_history(FIRST + STEP + STEP[:cut])
    assert (len(found.records), found.truncated) == ((2, None) if whole else (1, 3))


def test_truncated_file_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "h").write_bytes(FIRST + STEP[:-5])
    read_history(tmp_path / "h")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"", FORMAT),
        (STEP, "line 1"),
        (b'{"history": "drahealth/v1"}\n', "must be drahealth-history"),
        (FIRST.replace(b"/v1", b"/v2"), "drahealth-history/v2"),
        (FIRST[:-10], "line 1"),
        (b'{"format": "drahealth-history/v1"}\n', "drahealth"),
        (FIRST.replace(b'"kep"', b"7"), "profile"),
        (FIRST + b"{\n" + STEP, "line 2"),
        (FIRST + b"\n", "line 2"),
        (FIRST + b"\xff\n", "line 2"),
        (FIRST + b"[" * 100_000 + b"\n", "line 2"),
        (FIRST + b'{"event": "step", "text": "on"}\n', "None"),
        (FIRST + b'{"at": NaN, "event": "step", "text": "on"}\n', "nan"),
        (FIRST + b'{"at": 1' + b"0" * 400 + b', "event": "step", "text": "on"}\n', "line 2"),
        (FIRST + b'{"at": 1, "event": "stop"}\n', "'stop'"),
    ],
)
def test_unreadable_line_is_rejected_by_its_number(data: bytes, where: str) -> None:
    with pytest.raises(HistoryError) as caught:
        load_history(data)
    assert where in str(caught.value)
    assert "\n" not in str(caught.value)


LINES = st.sampled_from([FIRST, STEP, STEP[:20]]) | st.binary(max_size=60) | st.text().map(str.encode)


@given(st.lists(LINES, max_size=8).map(b"".join))
@settings(max_examples=300)
def test_any_bytes_are_a_history_or_a_clear_error(data: bytes) -> None:
    start = data.lstrip(b" \t\r")  # white space of JSON
    if start.startswith(FIRST) or start == FIRST[:-1]:
        with suppress(HistoryError):
            assert load_history(data).header == HEADER
    else:
        with pytest.raises(HistoryError):
            load_history(data)


@given(data=st.data())
@settings(max_examples=100)
def test_history_cut_anywhere_keeps_all_whole_records(data: st.DataObject) -> None:
    whole = FIRST + STEP * 3
    cut = data.draw(st.integers(len(FIRST), len(whole)))
    full_lines = (cut - len(FIRST)) // len(STEP)
    assert load_history(whole[:cut]).records[:full_lines] == [RECORD] * full_lines


def test_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_history(tmp_path / os.urandom(4).hex())
