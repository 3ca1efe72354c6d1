"""Statements of the texts, and what judges each of them. statements.toml has the columns."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, ClassVar

from drahealth.suites.judging import readings
from drahealth.suites.judging.ledger import requirements

TEXTS = {
    **readings.TEXTS,
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
    """ID of the statement in docs/coverage.md; empty for the source of a requirement without a statement."""
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
