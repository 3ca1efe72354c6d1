"""driver-mutants.md of the evidence: which checks of drivers catch which wrong drivers."""

from collections.abc import Iterator

from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.mutants.driver import MUTANTS
from drahealth.suites.driver_checks.summary import proven
from drahealth.suites.driver_checks.verdicts import requirements

INTRODUCTION = """\
A mutant is a driver or a device plugin with one deliberate defect. The mutants on this page test the checks of
`drahealth check` and `drahealth certify`. A check catches a mutant if the check fails for
this mutant. A check that catches a mutant is *proven*. All other checks are *unproven*. A driver can conform even if an
unproven check fails.

`drahealth selftest` runs each mutant as a real process. The checks for its defect must fail, and the checks of all
other MUST requirements must pass. The command also runs a driver and a device plugin without a defect, which must pass
all checks. All of this takes about five minutes. The output has the checks that caught each mutant. Examples:

    drahealth selftest                       # all mutants
    drahealth selftest wrong-pool            # one mutant
    drahealth selftest --sample 12 --seed 4  # twelve random mutants, and the driver and the plugin without a defect

The exit code is 3 if a mutant does not start. It is 1 in these cases:

- A check for the defect of a mutant passes.
- A mutant fails another MUST.
- The driver or the device plugin without a defect does not conform.

"""


def driver_mutants_page(note: str) -> str:
    """The page."""
    return "".join(["# Mutants of drivers\n\n", note, INTRODUCTION, *by_check(), *by_mutant()])


def by_check() -> Iterator[str]:
    caught = {check: proven().get(check, []) for check in CHECKS}
    order = list(requirements())
    yield f"## By check\n\n{sum(map(bool, caught.values()))} of {len(caught)} checks are proven.\n\n"
    yield "| requirement | check | mutants that the check catches |\n| --- | --- | --- |\n"
    for check in sorted(CHECKS.values(), key=lambda one: (order.index(one.requirement), one.name)):
        mutants = ", ".join(f"`{name}`" for name in caught[check.name]) or "**unproven**"
        yield f"| {check.requirement} | {check.name} | {mutants} |\n"


def by_mutant() -> Iterator[str]:
    yield f"\n## By mutant\n\nThere are {len(MUTANTS)} mutants.\n\n"
    yield "| mutant | defect | checks that catch it |\n| --- | --- | --- |\n"
    for mutant in MUTANTS.values():
        caught = [
            f"{check} ({CHECKS[check].requirement})"
            for check in mutant.caught_by
            if mutant.name in proven().get(check, [])
        ]
        yield f"| `{mutant.name}` | {mutant.fault} | {', '.join(caught) or '**nothing**'} |\n"
