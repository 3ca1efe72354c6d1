"""docs/driver-mutants.md: the kill matrix of the checks of drivers, from the mutants and the proven checks."""

from collections.abc import Iterator

from drahealth.suites.checking.checks import CHECKS
from drahealth.suites.checking.ledger import requirements
from drahealth.suites.checking.mutants.all_mutants import MUTANTS
from drahealth.suites.checking.summary import proven

INTRODUCTION = """\
A mutant is a driver or a device plugin with one deliberate defect. The mutants on this page prove the checks of
[`drahealth check`](check.md). Each mutant is a real process. The checks for its defect must fail, and the
checks of all other MUST requirements must pass. A driver and a device plugin without a defect must pass all checks.
`drahealth selftest` runs them all in about five minutes, and prints which checks caught each mutant:

    drahealth selftest                       # all
    drahealth selftest wrong-pool            # one
    drahealth selftest --sample 12 --seed 4  # twelve random mutants, and the two without a defect

The exit code is 1 if a check for the defect passes, if a mutant
fails another MUST, or if a driver without a defect does not conform. It is 3 if a mutant does not start.
A check that catches no mutant is unproven. A driver can conform even if an unproven check fails.

"""


def driver_mutants_page(note: str) -> str:
    """The page."""
    return "".join(["# Mutants of drivers\n\n", note, INTRODUCTION, *by_check(), *by_mutant()])


def by_check() -> Iterator[str]:
    caught = {check: proven().get(check, []) for check in CHECKS}
    order = list(requirements())
    yield f"## By check\n\n{sum(map(bool, caught.values()))} of {len(caught)} checks are proven.\n\n"
    yield "| requirement | check | catches these mutants |\n| --- | --- | --- |\n"
    for check in sorted(CHECKS.values(), key=lambda one: (order.index(one.requirement), one.name)):
        mutants = ", ".join(f"`{name}`" for name in caught[check.name]) or "**unproven**"
        yield f"| {check.requirement} | {check.name} | {mutants} |\n"


def by_mutant() -> Iterator[str]:
    yield f"\n## By mutant\n\n{len(MUTANTS)} drivers and device plugins.\n\n"
    yield "| mutant | defect | caught by |\n| --- | --- | --- |\n"
    for mutant in MUTANTS.values():
        caught = [
            f"{check} ({CHECKS[check].requirement})"
            for check in mutant.caught_by
            if mutant.name in proven().get(check, [])
        ]
        yield f"| `{mutant.name}` | {mutant.fault} | {', '.join(caught) or '**nothing**'} |\n"
