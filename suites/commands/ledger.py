"""The subcommands `scenarios` and `explain`: requirements, readings, known issues, and the scenarios."""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from drahealth.fakes.program.console import print_line
from drahealth.suites.driver_checks import verdicts as driver_ledger
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.judging.ledger import KnownIssue, every_known_issue, quotes, readings, requirements
from drahealth.suites.run.scenario import KEP, scenarios

app = typer.Typer()

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


# The explanations of `drahealth explain`: requirements of kubelets and drivers, readings and known issues. Pure.

_ID = re.compile(r"(?P<family>[A-Z]+)[-_ .]*(?P<number>[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known about an ID."""

    id: str
    kind: str
    """Such as `requirement of kubelets`."""
    sentence: str
    details: Mapping[str, tuple[str, ...]]
    """By title, such as `source`: one or more lines."""

    def plain(self) -> dict[str, Any]:
        """The explanation as JSON data."""
        return asdict(self)


def explanations(name: str) -> list[Explanation]:
    """All that has this ID, in upper or lower case. Raises ConfigurationError for an unknown ID."""
    wanted = name.upper()
    found = [make(wanted) for known, make in _KINDS if wanted in known()]
    if not found:
        raise ConfigurationError(f"no requirement, reading or known issue has the ID {name!r}", _hint(wanted))
    return found


def _hint(wanted: str) -> str:
    """The ID that an unknown one probably means, and how to see it; else where the IDs are listed."""
    known = every_id()
    family, number = _parts(wanted)
    same = [id_ for id_ in known if number is not None and _parts(id_) == (family, number)]
    of_family = sorted(id_ for id_ in known if _parts(id_)[0] == family)
    if close := same or get_close_matches(wanted, known, n=3, cutoff=0.9 if of_family else 0.6):
        return f"did you mean {' or '.join(close)}? Run `drahealth explain {close[0]}`"
    if of_family:
        return f"{family} has the IDs {', '.join(of_family)}; run `drahealth explain {of_family[0]}`"
    return "docs/reference/requirements.md, driver-requirements.md, readings.md and known-issues.md list the IDs"


def _parts(id_: str) -> tuple[str, int | None]:
    """The letters and the number of an ID, such as `B` and 1 for B-01 or for b1."""
    found = _ID.fullmatch(id_.strip())
    return (found["family"], int(found["number"] or -1)) if found else (id_, None)


def every_id() -> list[str]:
    """The IDs of all requirements, readings and known issues."""
    return [id_ for known, _ in _KINDS for id_ in known()]


def _of_kubelets(name: str) -> Explanation:
    entry = requirements()[name]
    mine = [issue for issue in every_known_issue() if issue.requirement == name]
    checked = [scenario.name for scenario in scenarios() if name in scenario.requirements]
    details = {
        "level": (entry.level,),
        "source": (entry.source,),
        "texts": tuple(line for one in quotes(name) if one.says for line in (str(one), *filter(None, [one.link]))),
        "readings": tuple(f"{id_}: {readings()[id_].holds}" for id_ in entry.readings),
        "needs": tuple(sorted(capability.value for capability in entry.needs)),
        "scenarios": ("the history of every scenario",) if entry.judged == "invariant" else tuple(checked),
        "releases": tuple(dict.fromkeys(f"{issue.releases_text}: {issue.id}, {issue.what}" for issue in mine)),
        "link": tuple(one.link for one in quotes(name) if one.link and not one.says),
    }
    return _explanation(name, f"requirement of the {entry.applies_to}", entry.sentence, details)


def _of_drivers(name: str) -> Explanation:
    from drahealth.suites.driver_checks.all_checks import CHECKS  # slow: it imports all experiments

    entry = driver_ledger.requirements()[name]
    subject = "device plugins" if entry.binds == "device-plugin" else "DRA drivers"
    details = {
        "level": (entry.level,),
        "source": (entry.source,),
        "reading": tuple(filter(None, (entry.reading,))),
        "releases": (entry.kubernetes,),
        "health APIs": entry.apis,
        "judged by": (f"drahealth {'check' if entry.scope == 'check' else f'certify --level {entry.scope}'}",),
        "checks": tuple(check for check, about in CHECKS.items() if about.requirement == name),
        "link": (entry.link,),
    }
    return _explanation(name, f"requirement of {subject}, {entry.family}", entry.sentence, details)


def _known_issue(name: str) -> Explanation:
    mine = [issue for issue in every_known_issue() if issue.id == name]
    details = {
        "requirement": _each(mine, lambda one: f"{one.requirement}: {requirements()[one.requirement].sentence}"),
        "assertion": _each(mine, lambda one: one.assertion),
        "releases": _each(mine, lambda one: f"{one.releases_text} ({one.happens})"),
        "condition": _each(mine, lambda one: "" if one.settings == "none" else one.settings),
        "scenarios": _each(mine, lambda one: one.scenario),
        "link": tuple(dict.fromkeys((*(one.links[0] for one in mine), *mine[0].threads))),
    }
    return _explanation(name, "known issue of released kubelets", " ".join(_each(mine, lambda one: one.what)), details)


def _reading(name: str) -> Explanation:
    entry = readings()[name]
    details = {
        "texts": tuple(f"{one.text}, {one.section}: {one.says}" for one in entry.statements),
        "our reading": (entry.holds,),
        "reason": (entry.why,),
        "requirements": entry.requirements,
    }
    return _explanation(name, "reading of texts that disagree", entry.topic, details)


_KINDS: tuple[tuple[Callable[[], Mapping[str, object]], Callable[[str], Explanation]], ...] = (
    (requirements, _of_kubelets),
    (driver_ledger.requirements, _of_drivers),
    (lambda: dict.fromkeys(issue.id for issue in every_known_issue()), _known_issue),
    (readings, _reading),
)


def _explanation(name: str, kind: str, sentence: str, details: Mapping[str, tuple[str, ...]]) -> Explanation:
    return Explanation(name, kind, sentence, {title: lines for title, lines in details.items() if lines})


def _each(issues: list[KnownIssue], text: Callable[[KnownIssue], str]) -> tuple[str, ...]:
    """The texts that are not empty, each once, in order."""
    return tuple(dict.fromkeys(filter(None, map(text, issues))))


def lines_of(found: Explanation) -> Iterator[tuple[str, str]]:
    """The details as lines: a title for the first line of each, then empty ones."""
    for title, lines in found.details.items():
        for number, line in enumerate(lines):
            yield ("" if number else title), line


# The scenarios and explanations as texts and as JSON.


@app.command("scenarios")
def list_scenarios(json: Json = False) -> None:
    """List the scenarios and their requirements."""
    if json:
        found = [
            {"id": f"{KEP}::{one.name}", "name": one.name, "title": one.title, "requirements": one.requirements}
            | {"needs": sorted(capability.value for capability in one.all_needs)}
            for one in scenarios()
        ]
        _write({"scenarios": found})
        return
    console = Console(highlight=False)
    ledger = requirements()
    for scenario in scenarios():
        console.print(f"[bold]{scenario.name}[/]", soft_wrap=True)
        for name in scenario.requirements:
            entry = ledger[name]
            line = f"  [cyan]{name:11}[/] [dim]{entry.level:6}[/] {escape(entry.sentence)}"
            print_line(console, Text.from_markup(line))


@app.command()
def explain(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...",
            help="ID of a requirement, a reading or a known issue, such as STATUS-03, READ-01 or P-08.",
            autocompletion=every_id,
        ),
    ],
    json: Json = False,
    reproduce: Annotated[
        bool,
        typer.Option(
            "--reproduce",
            help="Write a directory that shows a known issue on a real kubelet, with a bug report for Kubernetes. Only "
            "for known issues without a report upstream.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="With --reproduce: where to write the directory ID; default: here."),
    ] = None,
) -> None:
    """Explain a requirement for kubelets or drivers, a reading, or a known issue."""
    if reproduce:
        from drahealth.suites.commands.reproduce import SCRIPT, write

        if json:
            raise ConfigurationError("--json and --reproduce exclude each other", "remove one of them")
        for folder in write(ids, out or Path()):
            typer.echo(f"wrote {folder}; next: {shlex.quote(str(folder / SCRIPT))}")
        return
    if out:
        raise ConfigurationError("--out is only for --reproduce", "pass --reproduce, too")
    found = [one for name in ids for one in explanations(name)]
    if json:
        _write({"explanations": [one.plain() for one in found]})
        return
    console = Console(highlight=False)
    for one in found:
        print_line(console, Text.from_markup(f"[bold]{one.id}[/] ({escape(one.kind)}): {escape(one.sentence)}"))
        for title, line in lines_of(one):
            print_line(console, Text.from_markup(f"  [cyan]{title:12}[/] {escape(line)}"))


def _write(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
