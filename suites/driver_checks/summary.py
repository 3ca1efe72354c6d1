"""The verdict on a driver from its evidence, with the violations that the user accepts."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path

from drahealth.fakes.hints import near
from drahealth.proto.events import ExperimentEnded
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.fault_plan import covered, not_caused
from drahealth.suites.driver_checks.judge import Judgement, judge, shown_abilities
from drahealth.suites.driver_checks.observed import crashes
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.verdicts import ExitCode, Finding, Grade, Verdict, Waiver, requirements
from drahealth.suites.errors import ConfigurationError

# Waivers: violations that the user accepts for a time.
#
# A TOML file has one `[[waiver]]` for each requirement:
#
#     [[waiver]]
#     id = "PLUGIN-18"
#     reason = "The vendor library removes its socket with the next release."
#     link = "https://example.com/issues/7"
#     owner = "gpu-team@example.com"
#     until = 2027-01-31
#
# A waived requirement is still checked. Its FAIL becomes WAIVED until the end of that day. A waiver that has expired,
# or whose requirement the driver meets, makes the run fail.

_TEXTS = ("id", "reason", "link", "owner")
_KEYS = (*_TEXTS, "until")
_EXAMPLE = "each waiver is a table [[waiver]] with id, reason, link, owner and until"


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


# The verdict on a driver from its evidence: conforms, fails, incomplete, or an error of the harness. Pure.


class Outcome(StrEnum):
    """The verdict on a driver."""

    CONFORMS = "conforms"
    """It meets all MUSTs that apply to it."""
    FAILS = "fails"
    """It violates a MUST that is not waived, or a waiver is out of date."""
    HARNESS_ERROR = "harness error"
    """drahealth failed to run an experiment or a check."""
    INCOMPLETE = "incomplete"
    """The evidence of a MUST is missing, or of everything."""


EXIT_CODES: dict[Outcome, ExitCode] = {
    Outcome.CONFORMS: 0,
    Outcome.FAILS: 1,
    Outcome.HARNESS_ERROR: 3,
    Outcome.INCOMPLETE: 4,
}
"""Exit code of the command by outcome; 2 is wrong usage."""
_WORST = {
    Verdict.FAIL: Outcome.FAILS,
    Verdict.ERROR: Outcome.HARNESS_ERROR,
    Verdict.NOT_TESTED: Outcome.INCOMPLETE,
}
_SHOWN = {Verdict.PASS, Verdict.FAIL, Verdict.WAIVED}
"""The verdicts that need an observation of the driver. STATIC says only that nothing contradicts the requirement."""
NOT_SHOWN = "not shown"
"""The outcome of a family whose MUSTs are all STATIC: the run showed neither a pass nor a violation."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a run."""

    outcome: Outcome
    reasons: tuple[str, ...]
    """Why it does not conform, one sentence each."""
    judgements: tuple[Judgement, ...]
    """Those that do not apply because drahealth did not start the driver come first, then the order of the ledger."""
    running: bool
    """Whether the driver was already running: its start and its end were not judged."""
    only: tuple[str, ...] = ()
    """The only requirements that were judged; empty for all."""
    certificate: str = ""
    """The verdict of a certification in words; empty for a check."""
    complete: bool = True
    """Whether the run reached its end."""
    exits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """How the driver exited by itself, each with the IDs of the requirements that are not tested for this reason."""
    covered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values of each dimension of faults that the run caused; empty for a run without the plan of faults."""
    not_caused: tuple[str, ...] = ()
    """What the plan of faults could not cause, with the reasons."""

    @property
    def verdict(self) -> str:
        """The outcome in words. That of a partial run never says that the driver conforms."""
        if self.certificate:
            return self.certificate
        if self.only:
            if self.outcome is not Outcome.CONFORMS:
                return f"partial run: {', '.join(self.only)} {self.outcome}"
            static = [one.requirement.id for one in self.of(Verdict.STATIC)]
            met = [name for name in self.only if name not in static]
            words = [f"{', '.join(names)} {what}" for names, what in ((met, "met"), (static, NOT_SHOWN)) if names]
            return f"partial run: {', '.join(words)}"
        is_limited = self.running and self.outcome is Outcome.CONFORMS
        return f"{self.outcome}, running driver" if is_limited else str(self.outcome)

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the command."""
        return EXIT_CODES[self.outcome]

    @property
    def families(self) -> dict[str, str]:
        """The outcome for each family of requirements by itself: a driver can fail in one, and conform in others.

        There is none in a partial run. In a run without its end a family is at best incomplete.
        """
        found: dict[str, str] = {}
        if self.only:
            return found
        for family in dict.fromkeys(one.requirement.family for one in self.judgements):
            verdicts = {one.verdict for one in self.judgements if one.requirement.family == family and _is_must(one)}
            result = _family_outcome(verdicts)
            good = (Outcome.CONFORMS, NOT_SHOWN)
            found[family] = Outcome.INCOMPLETE if result in good and not self.complete else result
        return found

    @property
    def abilities(self) -> dict[str, Grade]:
        """How the run showed each ability of the driver."""
        return shown_abilities(item for one in self.judgements for item in one.findings.items())

    def of(self, verdict: Verdict, *levels: str) -> list[Judgement]:
        """The judgements with a verdict; of all levels if none is named."""
        return [
            one for one in self.judgements if one.verdict is verdict and (not levels or one.requirement.level in levels)
        ]

    def of_any(self, *verdicts: Verdict) -> list[Judgement]:
        """The judgements on MUSTs with one of these verdicts."""
        return [one for one in self.judgements if one.verdict in verdicts and one.requirement.level == "MUST"]


def _is_must(judgement: Judgement) -> bool:
    return judgement.requirement.level == "MUST"


def _family_outcome(verdicts: Set[Verdict]) -> str:
    """The outcome in words, from the verdicts on MUSTs."""
    for verdict, outcome in _WORST.items():
        if verdict in verdicts:
            return outcome
    if verdicts & _SHOWN:
        return Outcome.CONFORMS
    return NOT_SHOWN if Verdict.STATIC in verdicts else "does not apply"


def summarize(
    evidence: Evidence,
    *,
    waivers: Sequence[Waiver] = (),
    today: date,
    unproven: frozenset[str] | None = None,
    only: Sequence[str] = (),
) -> Summary:
    """Judges evidence. `unproven` are the checks that cannot fail a driver; by default, those of this release.

    `only` are IDs of requirements; the others are left out of the summary.
    """
    unproven = unproven_checks() if unproven is None else unproven
    wanted = [one for one in judge(evidence) if not only or one.requirement.id in only]
    judgements, problems = waive((_without_unproven(one, unproven) for one in wanted), waivers, today)
    outcome, reasons = _outcome(judgements, problems, complete=evidence.complete)
    if outcome in (Outcome.CONFORMS, Outcome.INCOMPLETE) and (unreached := _unreached(evidence, judgements)):
        outcome, reasons = Outcome.INCOMPLETE, (*reasons, unreached)
    exits = _exits(evidence, judgements)
    reasons = (*(f"{how[0].upper()}{how[1:]}." for how in exits), *reasons)
    running = not evidence.header.started_by_us
    first = sorted(judgements, key=lambda one: not (running and _needs_start(one)))
    return Summary(
        outcome,
        reasons,
        tuple(first),
        running,
        tuple(only),
        complete=evidence.complete,
        exits=exits,
        covered=covered(evidence),
        not_caused=() if only else not_caused(evidence),
    )


def _outcome(
    judgements: Sequence[Judgement], problems: tuple[str, ...], *, complete: bool
) -> tuple[Outcome, tuple[str, ...]]:
    musts = [one for one in judgements if one.requirement.level == "MUST"]
    failures = [one for one in musts if one.verdict is Verdict.FAIL]
    errors = [one for one in judgements if one.verdict is Verdict.ERROR]
    missing = [one for one in musts if one.verdict is Verdict.NOT_TESTED and (one.findings or not one.remarks)]
    cut = () if complete else (CUT_SHORT,)
    failing = (*(_sentence("The driver violates", [one]) for one in failures), *problems)
    if failing:
        return Outcome.FAILS, (*failing, *cut)
    if errors:
        return Outcome.HARNESS_ERROR, (_sentence("drahealth could not judge", errors), *cut)
    lacking = [*cut, *([_sentence("The evidence is missing for", missing)] if missing else [])]
    if not any(one.verdict in _SHOWN for one in judgements):
        static = [one for one in judgements if one.verdict is Verdict.STATIC]
        lacking.append(_sentence("Nothing changed that shows", static) if static else "The run judged no requirement.")
    return (Outcome.INCOMPLETE, tuple(lacking)) if lacking else (Outcome.CONFORMS, ())


CUT_SHORT = "The run did not reach its end: the evidence was cut short."


def _sentence(what: str, judgements: Iterable[Judgement]) -> str:
    return f"{what} {', '.join(one.requirement.id for one in judgements)}."


_OF_API_SERVER = {"api-server", "gateway", "claim"}
"""The needs of experiments that only an API server can fulfill: the devices of a claim are published there."""


def needing_api_server(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Those that do not apply to a driver without an API server, and that a run with one would judge."""
    found = []
    for one in judgements:
        needs = [
            {need for name in CHECKS[each].experiments for need in EXPERIMENTS[name].needs} for each in one.findings
        ]
        is_needed = one.requirement.family == "taints" or all(each & _OF_API_SERVER for each in needs)
        if one.verdict is Verdict.NOT_APPLICABLE and is_needed:
            found.append(one)
    return found


def _unreached(evidence: Evidence, judgements: Iterable[Judgement]) -> str:
    """Why the level full cannot be reached: without an API server, MUSTs that only this level has are not judged."""
    if evidence.header.api_server != "none":
        return ""
    missing = [one for one in needing_api_server(judgements) if one.requirement.scope == "full" and _is_must(one)]
    if not missing:
        return ""
    return (
        f"{_sentence('Level full needs an API server, which judges', missing)} Level core can be reached without one."
    )


def _without_unproven(judgement: Judgement, unproven: frozenset[str]) -> Judgement:
    remarks = {
        name: found for name, found in judgement.findings.items() if name in unproven and found.verdict is Verdict.FAIL
    }
    findings = {name: found for name, found in judgement.findings.items() if name not in remarks}
    return replace(judgement, findings=findings, remarks=remarks)


def _exits(evidence: Evidence, judgements: Iterable[Judgement]) -> dict[str, tuple[str, ...]]:
    """The exits of the driver by itself that ended experiments, with the requirements of these experiments."""
    untested = {one.requirement.id: one for one in judgements if one.verdict is Verdict.NOT_TESTED}
    causes: dict[str, str] = {}
    for exit_ in crashes(evidence, *{one.process for one in EXPERIMENTS.values()}):
        cut = {
            one.experiment
            for one in evidence.of(ExperimentEnded)
            if one.number > exit_.number and EXPERIMENTS[one.experiment].process == exit_.what.process
        }
        for name, one in untested.items():
            if any(cut.intersection(CHECKS[check].experiments) for check in one.findings):
                causes.setdefault(name, exit_text(exit_.what))
    return {how: tuple(name for name in untested if causes.get(name) == how) for how in dict.fromkeys(causes.values())}


def _needs_start(judgement: Judgement) -> bool:
    """Whether it does not apply because an experiment of it starts or ends the driver."""
    needs = {
        need for name in judgement.findings for each in CHECKS[name].experiments for need in EXPERIMENTS[each].needs
    }
    return judgement.verdict is Verdict.NOT_APPLICABLE and "start" in needs


def unproven_checks() -> frozenset[str]:
    """The checks that catch no mutant, by `proven.toml`."""
    return frozenset(name for name, mutants in proven().items() if not mutants)


@cache
def proven() -> dict[str, list[str]]:
    """The mutants that each check catches, by `proven.toml`."""
    text = resources.files("drahealth.suites.driver_checks").joinpath("proven.toml").read_text()
    return tomllib.loads(text)
