"""docs/reference/targets.md: what each target can do, and its options, written from the definitions of the targets."""

from collections.abc import Iterable, Iterator

from drahealth.manager.releases import MINORS
from drahealth.suites.targets import registry
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.option import Command
from drahealth.suites.targets.reference.target import LACKS_KEP_API, LACKS_RESIZE
from drahealth.suites.targets.versions import missing_in

INTRODUCTION = """\
A target is the place where scenarios run. The option `--target NAME` of `drahealth run` selects the target.

"""
CAPABILITIES = """
## Capabilities

A capability is something that a target can do and that some scenarios need. If a target lacks a capability, the
scenarios that need this capability are not applicable on this target. In the table, `yes` means that the target has
the capability with its default options, on at least one Kubernetes release.

The list after the table has the reason for each `no`. In spite of a `yes`, a target can lack the capability with some
options, profiles or releases. The list also has most of these cases.

"""
OPTIONS = """
## Options

This table has the options of `drahealth run` and `drahealth play`. The last column has the targets of each option.
In pytest, the options have the prefix `--drahealth-`. For example, `--nodes` is `--drahealth-nodes`.

"""
DOCTOR = """
This table has the options of `drahealth doctor`:

"""


def targets_page(note: str) -> str:
    """The page; `note` names its source."""
    return "".join(_parts(note))


def _parts(note: str) -> Iterator[str]:
    targets = list(registry.definitions())
    yield f"# Targets\n\n{note}{INTRODUCTION}"
    yield from _table(("target", "what it is"), ((f"`{target.name}`", target.summary) for target in targets))
    yield CAPABILITIES
    columns = ("capability", "meaning", *(target.name for target in targets))
    rows = ((f"`{c.value}`", c.meaning, *("yes" if t.can(c) else "no" for t in targets)) for c in Capability)
    yield from _table(columns, rows)
    yield "\n"
    yield from (f"- `{t.name}` lacks `{c.value}`: {why}.\n" for t in targets for c, why in t.missing.items())
    yield from (
        f"- `reference` with `--api-server real` lacks `{c.value}`: {why}.\n" for c, why in LACKS_RESIZE.items()
    )
    yield from (
        f"- `reference` with `--api-server real` and the profile `kep` lacks `{c.value}`: {why}.\n"
        for c, why in LACKS_KEP_API.items()
    )

    yield from (
        f"- Real kubelets of {r} lack `{c.value}`: {why}.\n" for r in _releases() for c, why in missing_in(r).items()
    )
    yield OPTIONS
    yield from _options("run")
    yield DOCTOR
    yield from _options("doctor")


def _releases() -> Iterator[str]:
    """The releases that have a profile, the oldest first."""
    return iter(MINORS)


def _options(command: Command) -> Iterator[str]:
    offered = registry.options(command)
    rows = ((f"`{f'--{o.name} {o.metavar}'.strip()}`", o.help, ", ".join(targets)) for o, targets in offered)
    return _table(("option", "meaning", "targets"), rows)


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    names = list(columns)
    yield f"| {' | '.join(names)} |\n|{' --- |' * len(names)}\n"
    yield from (f"| {' | '.join(row)} |\n" for row in rows)
