"""A history: events with their times, and the file that holds one."""

import io
import json
import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drahealth.proto.clock import Clock
from drahealth.proto.events import Record, from_json, to_json_text
from drahealth.proto.quoting import one_line, quoted
from drahealth.proto.version import __version__

# Lines of files that hold records: JSON objects with a time, in UTF-8. Errors are ValueError.


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object in a line."""
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    return data


def seconds_in(data: dict[str, Any], key: str) -> float:
    """The value of the key, a finite number of seconds."""
    value = data.get(key)
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
            return value
    except OverflowError:
        pass
    raise ValueError(f"`{key}` must be a number of seconds, got {one_line(repr(value))}")


def write_line(file: io.FileIO, data: bytes) -> None:
    """Writes all of it, also if the system takes it in parts. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


# A history: events with their times, and the file that holds one.
#
# A file is JSON Lines in UTF-8. The first line is the header:
#
#     {"format": "drahealth-history/v1", "drahealth": "0.1.0", "profile": "kep", "started": "2026-11-22T09:00:00+00:00",
#      "monotonic": 812.5}
#
# `monotonic` is the time of `started` on the clock of the records. Each other line is a record: an event in its JSON
# form, with `at`, monotonic seconds. A process that is killed loses at most the line that it was writing.

FORMAT = "drahealth-history/v1"
_BEGIN = f'{{"format": "{FORMAT.partition("/")[0]}/'.encode()

log = logging.getLogger(__name__)


class HistoryError(ValueError):
    """An invalid history file; the message has the line and the reason."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a file."""

    drahealth: str
    """Version of drahealth that wrote it."""
    profile: str
    """Name of the kubelet's profile."""
    started: str
    """RFC 3339."""
    monotonic: float
    """The same moment on the clock of the records."""

    @classmethod
    def make(cls, profile: str, clock: Clock, began: float | None = None) -> "Header":
        """A history that began at a time of `clock`; without one, now."""
        now = clock.now()
        began = now if began is None else began
        started = datetime.fromtimestamp(clock.wall() - (now - began), UTC).isoformat()
        return cls(__version__, profile, started, round(began, 6))


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A history that was read from a file."""

    header: Header
    records: list[Record]
    truncated: int | None = None
    """Number of the last line if its end is missing; it is not among the records."""


class HistoryWriter:
    """Appends to a new file; each record is in the file when `add` returns.

    After a failed write the error is logged, and the writer stops: otherwise a record would be missing in the middle.
    """

    def __init__(self, path: Path, header: Header) -> None:
        """Creates the file. Raises OSError; FileExistsError if it exists, because a history is never overwritten."""
        self._path = path
        self._file: io.FileIO | None = io.FileIO(path, "x")
        self._write(json.dumps(_header_json(header)))

    def add(self, record: Record) -> None:
        """Writes a record."""
        if self._file:
            self._write(record_line(record))

    def close(self) -> None:
        """Closes the file."""
        if self._file:
            self._file.close()
            self._file = None

    def _write(self, line: str) -> None:
        assert self._file
        try:
            write_line(self._file, line.encode() + b"\n")
        except OSError as error:
            log.error("failed to write history %s, which ends here: %s", self._path, error.strerror)
            self.close()


def dump_lines(header: Header, records: Iterable[Record]) -> Iterator[str]:
    """The lines of a history file."""
    yield json.dumps(_header_json(header))
    yield from map(record_line, records)


def record_line(record: Record) -> str:
    """The line of a record."""
    return f'{{"at":{record.at:.6f},{to_json_text(record.what)[1:]}'


def read_history(path: Path) -> HistoryFile:
    """Reads a history file.

    An incomplete last line is ignored with a warning; `truncated` has its number. Raises HistoryError for any other
    invalid line or another version, and OSError.
    """
    found = load_history(path.read_bytes())
    if found.truncated:
        log.warning("%s: ignoring incomplete line %d", path, found.truncated)
    return found


def is_history(path: Path) -> bool:
    """Whether the file begins as a history of any version does. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_BEGIN)) == _BEGIN


def load_history(data: bytes) -> HistoryFile:
    """Parses the content of a history file, as `read_history`."""
    *lines, rest = data.split(b"\n")
    header = None
    records: list[Record] = []
    for number, line in enumerate((*lines, *([rest] if rest else ())), start=1):
        is_whole = number <= len(lines)
        try:
            if header is None:
                header = _header(line)
            else:
                records.append(_record(line))
        except ValueError as error:
            if header and not is_whole:
                return HistoryFile(header, records, truncated=number)
            raise HistoryError(f"line {number}: {error}") from None
    if header is None:
        raise HistoryError(f"the file is empty; expected the header of {FORMAT}")
    return HistoryFile(header, records)


def _header_json(header: Header) -> dict[str, Any]:
    return {"format": FORMAT, **asdict(header)}


def _header(line: bytes) -> Header:
    data = parse_object(line)
    if (format_ := data.get("format")) != FORMAT:
        raise ValueError(f"the `format` of the header must be {FORMAT}, got {quoted(format_)}")
    try:
        values = {name: data[name] for name in ("drahealth", "profile", "started")}
        if not all(isinstance(value, str) for value in values.values()):
            raise ValueError("drahealth, profile and started must be strings")
        return Header(**values, monotonic=seconds_in(data, "monotonic"))
    except KeyError as error:
        raise ValueError(f"the header has no key `{error.args[0]}`") from None


def _record(line: bytes) -> Record:
    data = parse_object(line)
    at = seconds_in(data, "at")
    del data["at"]
    return Record(at, from_json(data))
