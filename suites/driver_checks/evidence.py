"""The evidence of one run: what was done to a driver, and what it answered, without secrets."""

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Generic, TypeVar

from drahealth.proto.clock import Clock
from drahealth.proto.events import Event, ExperimentEnded, ExperimentStarted, from_json, to_json_text
from drahealth.proto.events.checks import Outcome
from drahealth.proto.history import parse_object, seconds_in, write_line
from drahealth.proto.quoting import one_line, quoted
from drahealth.suites.driver_checks.experiments import EXPERIMENTS, Process
from drahealth.suites.driver_checks.verdicts import LEVELS, SUBJECT_KINDS, Level, SubjectKind
from drahealth.suites.errors import HarnessError

# Keeps secrets and names of this machine out of evidence. Pure.

SECRET = "[redacted]"
"""Replaces a secret."""
HOST = "redacted-host"
"""Replaces the name of this machine; like it, a DNS label, because drivers use it in names of objects."""

_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|(api|private|access|signing|encryption)_?key"
    r"|(^|_)(pat|pass|pwd|pw|creds?)(_|$)|(^|_)auth(orization)?$",
    re.IGNORECASE,
)
_SHORTEST = 6
"""Characters of the shortest text that is replaced; shorter ones are words such as `true`."""
_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")
_USER_INFO = r"(?<=://)[^\s/?#]+(?=@)"
"""User and password of a URL (RFC 3986, section 3.2.1)."""


class Redaction:
    """Replaces texts in the strings of JSON values; longer texts first, so that a folder does not hide a file in it."""

    def __init__(self, secrets: Iterable[str] = (), paths: Mapping[str, str] | None = None, host: str = "") -> None:
        """`paths` has the replacement of each path. Paths of a single component are not replaced."""
        self._replaced: dict[str, str] = {}
        self._patterns: dict[str, str] = {}
        for path, replacement in (paths or {}).items():
            if len(PurePath(path).parts) > 2:  # the first part is the root
                self._replaced[path] = replacement
                self._patterns[path] = rf"(?<![\w.-]){re.escape(path)}(?![\w-]|\.\w)"
        if len(host) >= _SHORTEST and host != "localhost":
            self._replaced[host] = HOST
            self._patterns[host] = rf"(?<![\w-]){re.escape(host)}(?![\w-])"
        for secret in secrets:
            self.hide(secret)
        self._compile()

    def hide(self, secret: str) -> None:
        """Replaces this secret from now on; no effect if it is short."""
        if len(secret) >= _SHORTEST:
            self._replaced[secret] = SECRET
            self._patterns[secret] = re.escape(secret)
            self._compile()

    def __call__(self, value: Any) -> Any:
        """The decoded JSON value without these texts. Keys and numbers stay."""
        if isinstance(value, str):
            return self._pattern.sub(lambda found: self._replaced.get(found[0], SECRET), value)
        if isinstance(value, Mapping):
            return {key: self(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self(one) for one in value]
        return value

    def _compile(self) -> None:
        longest_first = sorted(self._patterns, key=len, reverse=True)
        self._pattern = re.compile("|".join([*(self._patterns[text] for text in longest_first), _USER_INFO]))


def secrets_in(named: Iterable[tuple[str, str]], is_path: Callable[[str], bool]) -> set[str]:
    """The values of variables and options whose names sound like secrets, except paths and placeholders."""
    return {
        value
        for name, value in named
        if _SECRET_NAME.search(re.sub(r"[-.]", "_", name)) and not _PLACEHOLDER.search(value) and not is_path(value)
    }


def options_in(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and values of a command line: `--name=value`, `--name value` and `NAME=value`."""
    for word, following in zip(words, [*words[1:], "-"], strict=False):
        name, equals, value = word.partition("=")
        if equals:
            yield name.lstrip("-"), value
        elif word.startswith("-") and not following.startswith("-"):
            yield name.lstrip("-"), following


CANCELLED_BY_US = "cancelled by drahealth"
"""How the reason of a StreamClosed starts where an experiment has ended the stream."""

# The evidence of one run of `drahealth check`: what was done to a driver, and everything that was seen of it.
#
# A file is JSON Lines in UTF-8. The first line is the header, with `format` `drahealth-evidence/v1`. Each other line
# is a record: an event of `drahealth.proto.events` in its JSON form, with `at` (monotonic seconds since the start of
# the run) and `experiment`. The last line is `{"end": true, "records": N, "sha256": DIGEST}`; the digest covers all
# earlier lines. A file without it was cut short: its run is incomplete.

FORMAT = "drahealth-evidence/v1"

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


class EvidenceError(ValueError):
    """An invalid or edited evidence file; the message has the line and the reason."""


class EditedEvidenceError(EvidenceError):
    """The header is that of evidence; what follows is not what drahealth wrote."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first line: what was checked, and how."""

    drahealth: str
    """Version of drahealth that wrote it."""
    started: str
    """RFC 3339."""
    command: tuple[str, ...]
    """The driver's command line; empty for a driver that was already running, and for one in a cluster."""
    api_server: str
    """The API server of the driver: memory, real, kubeconfig or none."""
    node: str
    """Name of the node."""
    experiments: tuple[str, ...]
    """Names of the planned experiments."""
    level: Level = "check"
    """The level: how many requirements the run is judged by."""
    subject: SubjectKind = "dra-driver"
    """What the run checked: a DRA driver or a device plugin."""
    profile: str = ""
    """Name of the driver profile; empty for a run without one."""
    profile_sha256: str = ""
    """Digest of the driver profile."""
    workload: str = ""
    """What drahealth created in a cluster to start the driver: kind, namespace and name; empty for other drivers."""
    artifact: str = ""
    """The driver itself: the name of its file, or its image; empty if unknown."""
    artifact_sha256: str = ""
    """Digest of this file or image."""

    @property
    def started_by_us(self) -> bool:
        """Whether the run started the driver. Otherwise its start and its end were not seen."""
        return bool(self.command or self.workload)


@dataclass(frozen=True, slots=True)
class Observation(Generic[E_co]):
    """A record: one event of an experiment."""

    number: int
    """The line in the file; the header is line 1."""
    at: float
    """Monotonic seconds since the start of the run."""
    experiment: str
    what: E_co


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one run."""

    header: Header
    records: tuple[Observation[Event], ...]
    complete: bool = True
    """Whether the run reached its end; False if the last line is missing."""
    _by_kind: dict[type, list[Observation[Any]]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The records of each type that was asked for: the checks ask for a few types hundreds of times."""

    def of(self, kind: type[E], *experiments: str) -> Iterator[Observation[E]]:
        """The records of one type of event, in order; of all experiments if none is named."""
        if kind not in self._by_kind:
            self._by_kind[kind] = [record for record in self.records if isinstance(record.what, kind)]
        for record in self._by_kind[kind]:
            if not experiments or record.experiment in experiments:
                yield record


class EvidenceWriter:
    """Collects the records of a run, and writes each to a file, if there is one."""

    def __init__(self, header: Header, path: Path | None = None, redaction: Redaction | None = None) -> None:
        """Creates the file. Raises OSError; FileExistsError if it exists.

        What the redaction replaces is neither in the file nor in the records. Without a redaction, only this user can
        read the file.
        """
        self._redaction = redaction
        if redaction:
            header = replace(header, command=tuple(redaction(header.command)), node=HOST)
        self._header = header
        self._path = path
        self._records: list[Observation[Event]] = []
        self._complete = False
        self._digest = hashlib.sha256()
        self._file = io.FileIO(path, "x") if path else None
        if path and not redaction:
            path.chmod(0o600)
        self._write(json.dumps({"format": FORMAT, **asdict(header)}))

    def hide(self, secret: str) -> None:
        """Replaces a secret in all later records, if there is a redaction."""
        if self._redaction:
            self._redaction.hide(secret)

    def add(self, at: float, experiment: str, event: Event) -> Event:
        """Adds a record. Returns its event, which is the one that `read_evidence` reads. Raises HarnessError."""
        fields = json.loads(to_json_text(event))
        word = fields.pop("event")
        if self._redaction:
            fields = self._redaction(fields)
        data = {"at": round(at, 6), "experiment": experiment, "event": word, **fields}
        line = json.dumps(data, separators=(",", ":"))
        try:
            found = _record(data, len(self._records) + 2)
        except EvidenceError as error:
            raise HarnessError(f"cannot record an event: {error}", "pass --no-redact, or use another secret") from error
        self._records.append(found)
        self._write(line)
        return found.what

    def finish(self) -> None:
        """Writes the closing line: the run has reached its end. Raises HarnessError."""
        end = {"end": True, "records": len(self._records), "sha256": self._digest.hexdigest()}
        self._write(json.dumps(end))
        self._complete = True

    def close(self) -> None:
        """Closes the file."""
        if self._file:
            self._file.close()
            self._file = None

    @property
    def evidence(self) -> Evidence:
        """The evidence so far."""
        return Evidence(self._header, tuple(self._records), self._complete)

    def _write(self, line: str) -> None:
        data = line.encode() + b"\n"
        self._digest.update(data)
        if self._file:
            try:
                write_line(self._file, data)
            except OSError as error:
                raise HarnessError(
                    f"cannot write {self._path}: {error.strerror}", "choose a file on a disk with free space"
                ) from error


def read_evidence(path: Path) -> Evidence:
    """Reads a file. Raises EvidenceError, and OSError."""
    return load_evidence(path.read_bytes())


def load_evidence(data: bytes) -> Evidence:
    """Parses the content of a file.

    A file that was cut short gives evidence that is not complete. Raises EvidenceError for a file of another format,
    an invalid line, or a digest that differs from the content.
    """
    lines = data.split(b"\n")
    cut = lines.pop()  # empty after a complete last line
    if not lines:
        raise EvidenceError(f"line 1: expected the header of {FORMAT}")
    header = _header(_object(lines[0], 1))
    try:
        return _loaded(header, lines, cut)
    except EvidenceError as error:
        raise EditedEvidenceError(str(error)) from None


def _loaded(header: Header, lines: list[bytes], cut: bytes) -> Evidence:
    digest = hashlib.sha256(lines[0] + b"\n")
    records: list[Observation[Event]] = []
    for number, line in enumerate(lines[1:], start=2):
        found = _object(line, number)
        if found.get("end") is True:
            if cut or number < len(lines):
                raise EvidenceError(f"line {number + 1}: the file continues after its closing line; it was edited")
            if (found.get("records"), found.get("sha256")) != (len(records), digest.hexdigest()):
                raise EvidenceError(f"line {number}: the digest differs from the content; the file was edited")
            return Evidence(header, tuple(records))
        records.append(_record(found, number))
        digest.update(line + b"\n")
    return Evidence(header, tuple(records), complete=False)


def _header(data: dict[str, Any]) -> Header:
    if (format_ := data.get("format")) != FORMAT:
        raise EvidenceError(f"line 1: the `format` of the header must be {FORMAT}, got {quoted(format_)}")
    try:
        return Header(
            drahealth=_text(data["drahealth"]),
            started=_text(data["started"]),
            command=tuple(map(_text, data["command"])),
            api_server=_text(data["api_server"]),
            node=_text(data["node"]),
            experiments=tuple(map(_text, data["experiments"])),
            level=_level(data.get("level", "check")),
            subject=_subject(data.get("subject", "dra-driver")),
            profile=_text(data.get("profile", "")),
            profile_sha256=_text(data.get("profile_sha256", "")),
            workload=_text(data.get("workload", "")),
            artifact=_text(data.get("artifact", "")),
            artifact_sha256=_text(data.get("artifact_sha256", "")),
        )
    except KeyError as error:
        raise EvidenceError(f"line 1: the header has no key `{error.args[0]}`") from None
    except TypeError:
        raise EvidenceError("line 1: the header must have strings, and lists of strings") from None


def _record(data: dict[str, Any], number: int) -> Observation[Event]:
    try:
        at, experiment = seconds_in(data, "at"), data.get("experiment")
        if not isinstance(experiment, str):
            raise ValueError(f"`experiment` must be a string, got {one_line(repr(experiment))}")
        event = {key: value for key, value in data.items() if key not in ("at", "experiment")}
        return Observation(number, at, experiment, from_json(event))
    except ValueError as error:
        raise EvidenceError(f"line {number}: {error}") from None


def _level(value: Any) -> Level:
    if value not in LEVELS:
        raise EvidenceError(f"line 1: level must be {', '.join(LEVELS)}, got {one_line(repr(value))}")
    found: Level = value
    return found


def _subject(value: Any) -> SubjectKind:
    if value not in SUBJECT_KINDS:
        raise EvidenceError(f"line 1: subject must be {' or '.join(SUBJECT_KINDS)}, got {one_line(repr(value))}")
    found: SubjectKind = value
    return found


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        return parse_object(line)
    except ValueError as error:
        raise EvidenceError(f"line {number}: {error}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


# Gives each event its time and its experiment, and passes it to the evidence and to listeners.

Listener = Callable[[str, Event], None]
"""Receives the name of the experiment and the event, without secrets."""

_current: ContextVar[str] = ContextVar("experiment")


class Recorder:
    """Records the events of a run."""

    def __init__(self, writer: EvidenceWriter, clock: Clock, listener: Listener) -> None:
        self._writer = writer
        self._clock = clock
        self._began = clock.now()
        self._listener = listener
        self._running: dict[str, None] = {}

    @contextmanager
    def experiment(self, name: str) -> Iterator[None]:
        """Events of this task belong to the experiment."""
        token = _current.set(name)
        self._running[name] = None
        try:
            yield
        finally:
            del self._running[name]
            _current.reset(token)

    def started(self, name: str) -> None:
        """Records the start of an experiment."""
        self.add(name, ExperimentStarted(EXPERIMENTS[name].process))

    def ended(self, name: str, outcome: Outcome, reason: str = "") -> None:
        """Records the end of an experiment."""
        self.add(name, ExperimentEnded(outcome, reason))

    def of_current(self, event: Event) -> None:
        """Records an event of the experiment of this task."""
        self.add(_current.get(), event)

    def of_process(self, process: Process, event: Event) -> None:
        """Records an event in each running experiment of a driver process."""
        for name in [name for name in self._running if EXPERIMENTS[name].process == process]:
            self.add(name, event)

    def add(self, name: str, event: Event) -> None:
        """Records an event of an experiment."""
        self._listener(name, self._writer.add(self._clock.now() - self._began, name, event))

    def hide(self, secret: str) -> None:
        """Keeps a secret out of all later records."""
        self._writer.hide(secret)
