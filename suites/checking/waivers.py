"""Waivers: violations that the user accepts for a time.

A TOML file has one `[[waiver]]` for each requirement:

    [[waiver]]
    id = "PLUGIN-18"
    reason = "The vendor library removes its socket with the next release."
    link = "https://example.com/issues/7"
    owner = "gpu-team@example.com"
    until = 2027-01-31

A waived requirement is still checked. Its FAIL becomes WAIVED until the end of that day. A waiver that has expired, or
whose requirement the driver meets, makes the run fail.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from drahealth.fakes.hints import near
from drahealth.suites.checking.judge import Judgement
from drahealth.suites.checking.ledger import requirements
from drahealth.suites.checking.verdicts import Finding, Verdict
from drahealth.suites.errors import ConfigurationError

_TEXTS = ("id", "reason", "link", "owner")
_KEYS = (*_TEXTS, "until")
_EXAMPLE = "each waiver is a table [[waiver]] with id, reason, link, owner and until"


@dataclass(frozen=True, slots=True)
class Waiver:
    """One accepted violation."""

    id: str
    """ID of the requirement."""
    reason: str
    link: str
    """URL of an issue that tracks it."""
    owner: str
    until: date
    """The last day on which the waiver is valid."""


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """Reads a file. Raises ConfigurationError, which names the file and the waiver, and OSError."""
    return parse_waivers(path.read_bytes(), str(path))


def parse_waivers(data: bytes, source: str) -> tuple[Waiver, ...]:
    """The waivers of a file's content. Raises ConfigurationError."""
    try:
        document = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{source}: invalid TOML: {error}") from None
    if other := sorted(document.keys() - {"waiver"}):
        raise ConfigurationError(f"{source}: unknown key {other[0]!r}", _EXAMPLE)
    entries = document.get("waiver", [])
    if not isinstance(entries, list):
        raise ConfigurationError(f"{source}: `waiver` must be a list of tables", _EXAMPLE)
    found = tuple(_waiver(entry, f"{source}: waiver {number}") for number, entry in enumerate(entries, start=1))
    for number, waiver in enumerate(found):
        if waiver.id in {other.id for other in found[:number]}:
            raise ConfigurationError(f"{source}: waiver {number + 1}: {waiver.id} has a waiver already")
    return found


def _waiver(entry: object, where: str) -> Waiver:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{where}: must be a table, got {entry!r}", _EXAMPLE)
    for name in entry:
        if name not in _KEYS:
            raise ConfigurationError(f"{where}: unknown key {name!r}", near(name, _KEYS))
    for name in _KEYS:
        if name not in entry:
            raise ConfigurationError(f"{where}: key `{name}` is missing", _EXAMPLE)
    for name in _TEXTS:
        if not isinstance(entry[name], str) or not entry[name].strip():
            raise ConfigurationError(f"{where}: `{name}` must be a text that is not empty, got {entry[name]!r}")
    if entry["id"] not in requirements():
        raise ConfigurationError(
            f"{where}: unknown requirement for drivers and device plugins {entry['id']!r}",
            near(entry["id"], requirements()),
        )
    if type(entry["until"]) is not date:
        raise ConfigurationError(f"{where}: `until` must be a date such as 2027-01-31, got {entry['until']!r}")
    return Waiver(**entry)


def waive(
    judgements: Iterable[Judgement], waivers: Sequence[Waiver], today: date
) -> tuple[list[Judgement], tuple[str, ...]]:
    """The judgements with WAIVED in place of accepted failures, and the problems of waivers, each in a sentence."""
    by_id = {waiver.id: waiver for waiver in waivers}
    found, problems = [], []
    for judgement in judgements:
        waiver = by_id.get(judgement.requirement.id)
        if waiver and waiver.until < today:
            problems.append(f"The waiver of {waiver.id} has expired on {waiver.until}; remove it or set a later date.")
        elif waiver and judgement.verdict is Verdict.PASS:
            problems.append(f"The driver meets {waiver.id}, which has a waiver; remove the waiver.")
        elif waiver:
            waived = {name: _waived(finding) for name, finding in judgement.findings.items()}
            found.append(replace(judgement, findings=waived))
            continue
        found.append(judgement)
    return found, tuple(problems)


def _waived(finding: Finding) -> Finding:
    return replace(finding, verdict=Verdict.WAIVED) if finding.verdict is Verdict.FAIL else finding
