"""The ledger as data: requirements, known issues, readings, and the statements of the texts."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any, ClassVar, Literal

from drahealth.manager.releases import MINORS, NEXT_NAME, Range
from drahealth.suites.targets.capabilities import Capability, named

# The ledger: requirements and known issues of released kubelets, as data.
#
# Both are TOML files in this folder. Comments at their top define the columns.


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement of the ledger."""

    id: str
    level: Literal["MUST", "SHOULD", "MAY"]
    applies_to: str
    """The component that must meet it: kubelet, api-server or driver."""
    sentence: str
    source: str
    judged: Literal["scenario", "invariant"]
    needs: tuple[Capability, ...] = ()
    """The capabilities that a target must have for it."""
    needs_fields: tuple[str, ...] = ()
    """The fields of DeviceHealth that a health API must carry for it."""
    readings: tuple[str, ...] = ()
    """The readings that it depends on (`readings`)."""

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> "Requirement":
        """From the ledger's entry. Raises ValueError, which names the entry and the key."""
        if "not_on" in entry:
            raise ValueError(f"{name}: unknown key `not_on`; use `needs`, which lists capabilities of targets")
        try:
            needs = named(entry.get("needs", ()))
        except ValueError as error:
            raise ValueError(f"{name}, `needs`: {error}; for fields of a health API use `needs_fields`") from None
        lists = {key: tuple(entry.get(key, ())) for key in ("needs_fields", "readings")}
        return cls(id=name, **{**entry, **lists, "needs": needs})


_CODE = "https://github.com/kubernetes/kubernetes/blob/master/"
"""Before a path in the repository of Kubernetes."""
_THREAD = "https://github.com/kubernetes/kubernetes/issues/"
"""Before the number of a thread. GitHub forwards to the pull request if it is one."""


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """A known difference of released kubelets: the assertion of a requirement that fails, and the releases."""

    id: str
    requirement: str
    assertion: str
    range: Range
    """The releases with it."""
    happens: Literal["always", "sometimes"]
    settings: str
    link: str
    what: str
    scenario: str = ""
    """The title of the only scenario that shows the issue; "" for all scenarios with the assertion."""
    threads: tuple[str, ...] = ()
    """The addresses of the threads about it: the report, and the pull request with a fix."""

    @classmethod
    def of(cls, entry: Mapping[str, Any], threads: Mapping[str, Any]) -> "KnownIssue":
        """From an entry of the file. Raises ValueError for a range that is wrong."""
        limits = {key: entry[key] for key in ("since", "until") if key in entry}
        rest = {key: value for key, value in entry.items() if key not in (*limits, "fixed_in")}
        found = tuple(f"{_THREAD}{number}" for number in threads.get(entry["id"], ()))
        return cls(**rest, range=Range(**limits, fixed_in=tuple(entry.get("fixed_in", ()))), threads=found)

    @property
    def releases(self) -> tuple[str, ...]:
        """The names of the profiles with it, oldest first."""
        return self.range.profiles

    @property
    def releases_text(self) -> str:
        """Its releases for people, such as `1.34, 1.35; fixed in 1.36.4, 1.37`."""
        minors = [minor for minor in MINORS if minor in self.range]
        fixed = f"; fixed in {', '.join(self.range.fixed_in)}" if self.range.fixed_in else ""
        return f"{', '.join(minors)}{fixed}"

    @property
    def links(self) -> tuple[str, ...]:
        """The addresses of its source, with the name of a function, and of the threads."""
        path, _, function = self.link.partition(", ")
        source = self.link if "://" in self.link else f"{_CODE}{path}" + (f" ({function})" if function else "")
        return tuple(dict.fromkeys((source, *self.threads)))

    def covers(self, requirement: str, assertion: str, scenario: str) -> bool:
        """Whether this issue explains a failure of this assertion in this scenario."""
        return (self.requirement, self.assertion) == (requirement, assertion) and self.scenario in ("", scenario)


@cache
def requirements() -> dict[str, Requirement]:
    """All requirements by ID, in the order of the file."""
    entries = _load("requirements.toml").items()
    return {name: Requirement.of(name, entry) for name, entry in entries}


@cache
def known_issues(profile: str, fixed: frozenset[str] = frozenset(), api_server: str = "") -> tuple[KnownIssue, ...]:
    """The known issues of a profile, by its name, which includes the patch level. Profile `kep` has none.

    `fixed` are the ids of issues that this kubelet has fixed: with an open fix, only the violations that end with it.
    `api_server` is the profile of the API server, if it is of another release: its requirements have those issues.
    """
    of_servers = {name for name, one in requirements().items() if one.applies_to == "api-server"}
    return tuple(
        issue
        for issue in every_known_issue()
        if (api_server if api_server and issue.requirement in of_servers else profile) in issue.releases
        and not _is_fixed(issue, fixed)
    )


def _is_fixed(issue: KnownIssue, fixed: frozenset[str]) -> bool:
    same = [one for one in every_known_issue() if one.id == issue.id]
    in_part = any(NEXT_NAME in one.range.fixed_in for one in same)
    return issue.id in fixed and (NEXT_NAME in issue.range.fixed_in or not in_part)


@cache
def every_known_issue() -> tuple[KnownIssue, ...]:
    """The known issues of all releases, in the order of the file."""
    content = _load("known_issues.toml")
    return tuple(KnownIssue.of(entry, content["threads"]) for entry in content["issue"])


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("drahealth.suites.judging").joinpath(name).read_text())


# The readings: where the texts of KEP-4680 disagree, which statement holds, and why. readings.toml has the columns.

READING_TEXTS = {
    "KEP": "the newest revision of KEP-4680, beta in 1.36",
    "KEP (2025)": "the revision of 2025, for the stage alpha2",
    "KEP (2024)": "the oldest revision, of 2024",
    "design": "the detailed design document of May 2025",
    "Kubernetes": "the released kubelets and APIs",
}
"""The texts that a statement can be from, with their meaning."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What one text says in one section."""

    text: str
    section: str
    says: str

    def __post_init__(self) -> None:
        if self.text not in READING_TEXTS:
            raise ValueError(f"unknown text {self.text!r}; the texts are {', '.join(READING_TEXTS)}")


@dataclass(frozen=True, slots=True)
class Reading:
    """A place where texts disagree, and the statement that holds."""

    id: str
    topic: str
    statements: tuple[Statement, ...]
    holds: str
    why: str
    requirements: tuple[str, ...]
    """The requirements that depend on it."""

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> "Reading":
        """From an entry of the file. Raises ValueError, which names the entry."""
        known = {field.name for field in fields(cls)} - {"id"}
        if wrong := entry.keys() ^ known:
            raise ValueError(f"{name}: unknown or missing keys: {', '.join(sorted(wrong))}")
        if len(entry["statements"]) < 2:
            raise ValueError(f"{name}: a reading needs at least 2 statements, got {len(entry['statements'])}")
        if not entry["requirements"]:
            raise ValueError(f"{name}: a reading needs at least 1 requirement, got 0")
        try:
            statements = tuple(Statement(**statement) for statement in entry["statements"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}, `statements`: {error}") from None
        return cls(name, entry["topic"], statements, entry["holds"], entry["why"], tuple(entry["requirements"]))


@cache
def readings() -> dict[str, Reading]:
    """All readings by id, in the order of the file."""
    text = resources.files("drahealth.suites.judging").joinpath("readings.toml").read_text()
    return {name: Reading.of(name, entry) for name, entry in tomllib.loads(text).items()}


# Statements of the texts, and what judges each of them. statements.toml has the columns.

TEXTS = {
    **READING_TEXTS,
    "kubeletplugin": "the documentation of the Go package kubeletplugin",
    "drahealth": "the goals of this project",
}
"""The texts that a statement can be from, with their meaning."""

VERDICTS = {
    "covered": "A scenario judges the statement, or the reading that replaces it. Each mutant of the row makes a "
    "scenario fail.",
    "tested": "A test that is not a scenario judges the statement.",
    "weak": "The scenarios judge only a part of the statement.",
    "no obligation": "The statement requires no behavior of a kubelet or an API server.",
    "other work": "The statement is about drivers, upgrades, version skew, long runs, resource use, or clusters that "
    "drahealth does not support.",
}
"""The verdicts on a statement, with their meaning."""

KEP_LINK = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4680-add-resource-health-to-pod-status"
"""The newest revision of the KEP."""

_ARCHITECTURE = "High-Level Architectural Approach for DRA Health"
_OPTIONAL = ("User Stories", "Notes/Constraints/Caveats", "Infrastructure Needed")
_PLAIN = (
    "Release Signoff Checklist",
    "Motivation",
    "Goals",
    "Non-Goals",
    "Proposal",
    "Story 1",
    "Risks and Mitigations",
    "Design Details",
    "Device Plugin implementation details",
    "DRA implementation details",
    "gRPC API for DRA Device Health",
    "Test Plan",
    "Unit tests",
    "Integration tests",
    "e2e tests",
    "Graduation Criteria",
    "Alpha",
    "Alpha2",
    "Beta",
    "GA",
    "Upgrade / Downgrade Strategy",
    "Version Skew Strategy",
    "Feature Enablement and Rollback",
    "Rollout, Upgrade and Rollback Planning",
    "Monitoring Requirements",
    "Dependencies",
    "Scalability",
    "Troubleshooting",
    "Drawbacks",
    "Alternatives",
)
_KEP_HEADINGS: Mapping[str, str] = {
    **{name: name for name in _PLAIN},
    **{name: f"{name} (Optional)" for name in _OPTIONAL},
    "Design Details, Optional gRPC Stream": _ARCHITECTURE,
    "Design Details, Health Information Cache": _ARCHITECTURE,
    "Design Details, Kubelet Integration": _ARCHITECTURE,
    "Design Details, PodStatus Update": _ARCHITECTURE,
}
"""The headings of the KEP, by the names of sections. The last four sections are items of one list."""

_LINKS = {
    "KEP (2025)": KEP_LINK.replace("/tree/", "/commits/"),
    "KEP (2024)": KEP_LINK.replace("/tree/", "/commits/"),
    "design": "https://github.com/kubernetes/kubernetes/pull/130606",
    "kubeletplugin": "https://pkg.go.dev/k8s.io/dynamic-resource-allocation/kubeletplugin",
}
"""The pages of texts without headings. The design document has no public page; it describes this pull request."""

_JUDGED = ("covered", "tested", "weak")

_LISTS = ("requirements", "scenarios", "mutants", "tests")
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "covered": ("requirements", "scenarios", "mutants"),
    "tested": ("requirements", "tests", "why"),
}


@dataclass(frozen=True, slots=True)
class JudgedStatement:
    """A statement of a text, and what judges it. The fields are the columns of the file."""

    id: str
    text: str
    section: str
    says: str
    verdict: str
    requirements: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    why: str = ""

    def __post_init__(self) -> None:
        if self.text not in TEXTS:
            raise ValueError(f"{self.id}: unknown text {self.text!r}; the texts are {', '.join(TEXTS)}")
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.id}: unknown verdict {self.verdict!r}; the verdicts are {', '.join(VERDICTS)}")
        for needed in _NEEDED.get(self.verdict, ("why",)):
            if not getattr(self, needed):
                raise ValueError(f"{self.id}: the verdict {self.verdict!r} needs `{needed}`")

    @property
    def is_of_a_text(self) -> bool:
        """Whether it is judged, and no goal of this project."""
        return self.verdict in _JUDGED and self.text != "drahealth"

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> "JudgedStatement":
        """From an entry of the file. Raises ValueError, which names the entry."""
        lists = {key: tuple(entry[key]) for key in _LISTS if key in entry}
        try:
            return cls(name, **{**entry, **lists})
        except TypeError as error:
            raise ValueError(f"{name}: unknown or missing keys: {error}") from None


@cache
def statements() -> dict[str, JudgedStatement]:
    """All statements by id, in the order of the file."""
    text = resources.files("drahealth.suites.judging").joinpath("statements.toml").read_text()
    return {name: JudgedStatement.of(name, entry) for name, entry in tomllib.loads(text).items()}


@dataclass(frozen=True, slots=True)
class Quote:
    """A statement of a text, as a failure quotes it."""

    # Meanings in the JSON Schema are the docstrings of the fields.
    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True}

    id: str
    """ID of the statement (statements.toml); empty for the source of a requirement without a statement."""
    text: str
    """Name of the text, such as KEP; empty for another source."""
    section: str
    """Section of the text."""
    says: str
    """The statement, in the words of drahealth; empty without a statement."""
    link: str
    """Address of the section, or of the text; empty if the text has no public page."""

    def __str__(self) -> str:
        place = ", ".join(filter(None, (self.text, self.section)))
        return f"{place}: {self.says} ({self.id})" if self.says else place


def quotes(requirement: str, scenario: str = "") -> tuple[Quote, ...]:
    """The statements of the texts that the requirement follows from; without one, the source of the requirement.

    Statements that the scenario judges come first, then those of the sections that the source names. A statement of
    few requirements comes before one of many.
    """
    entry = requirements().get(requirement)
    if entry is None:
        return ()

    def rank(one: JudgedStatement) -> tuple[bool, bool, bool, int]:
        return scenario not in one.scenarios, one.section not in entry.source, one.text != "KEP", len(one.requirements)

    known = statements().values()
    mine = sorted((one for one in known if requirement in one.requirements and one.is_of_a_text), key=rank)
    found = tuple(Quote(one.id, one.text, one.section, one.says, link_of(one.text, one.section)) for one in mine)
    return found or (_source(entry.source),)


def link_of(text: str, section: str) -> str:
    """The address of a section; that of the text if the section has none."""
    if text == "KEP":
        places = [(f", {section}, ".rfind(f", {name}, "), heading) for name, heading in _KEP_HEADINGS.items()]
        at, heading = max(places)
        return f"{KEP_LINK}#{_anchor(heading)}" if at >= 0 else KEP_LINK
    link = _LINKS.get(text, "")
    if text != "kubeletplugin":
        return link
    name, _, member = section.partition(";")[0].partition(", ")
    if not re.fullmatch(r"[A-Z]\w+", name):
        return link
    return f"{link}#{name}.{member}" if name == "Helper" and member else f"{link}#{name}"


def _anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _source(source: str) -> Quote:
    """The first place in the column `source` of the ledger."""
    text, colon, section = source.partition("; ")[0].partition(". ")[0].partition(": ")
    return (
        Quote("", text, section, "", link_of(text, section))
        if colon and text in TEXTS
        else Quote("", "", source, "", "")
    )
