"""`drahealth selftest`: check mutants, print which check caught which, and write the list of proven checks."""

import asyncio
import json
import random
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape

from drahealth.fakes.hints import near
from drahealth.fakes.program.console import standard_output
from drahealth.proto.quoting import one_line
from drahealth.suites.commands.ending import run_terminable
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.fault_adapters import FaultAdapters
from drahealth.suites.driver_checks.mutants.driver import MUTANTS, WITHOUT_FAULT
from drahealth.suites.driver_checks.mutants.proving import Proof, prove
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.output_paths import check_output_file

FORMAT = "drahealth-selftest/v1"
_HEADER = """\
# The mutants that each check catches: drivers that are wrong in one way. Written by `drahealth selftest --write`.
# A check with an empty list is unproven: its failure is a remark, and cannot fail a driver.

"""


def selftest(names: Sequence[str], *, sample: int | None, seed: int | None, as_json: bool, write: Path | None) -> int:
    """Checks mutants; all by default. Returns the exit code. Raises ConfigurationError."""
    chosen = choice(names, sample, seed)
    if write and sample is not None:
        raise ConfigurationError("--write and --sample exclude each other", "remove one of them")
    check_output_file(str(write) if write else None)
    others = _other_catches(write, names) if write and names else {}
    console = standard_output()

    def show(proof: Proof) -> None:
        if not as_json:
            console.print(f"{_outcome(proof):6} {proof.seconds:5.1f} s  {escape(_line(proof))}", soft_wrap=True)

    proofs = _proofs(chosen, show)
    if as_json:
        print(to_json(proofs))  # noqa: T201
    else:
        for line in summary_lines(proofs, whole=len(chosen) > len(MUTANTS)):
            console.print(escape(line), soft_wrap=True)
    code = exit_code(proofs, len(chosen))
    if write and code == 0:
        found = catches(proofs)
        write.write_text(proven_text({check: sorted({*others.get(check, ()), *found[check]}) for check in found}))
    return code


def _other_catches(path: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """What a list of proven checks has of the mutants that are not checked now. Raises ConfigurationError."""
    try:
        known = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"cannot read {path}: {one_line(str(error))}", "check all mutants: leave out their names"
        ) from None
    return {check: [name for name in of if name in MUTANTS and name not in names] for check, of in known.items()}


def choice(names: Sequence[str], sample: int | None, seed: int | None) -> list[str]:
    """The drivers to check: these, or a random sample beside the healthy one, or all. Raises ConfigurationError."""
    known = [*WITHOUT_FAULT, *MUTANTS]
    for name in names:
        if name not in known:
            raise ConfigurationError(f"unknown mutant {name!r}", near(name, known, "suites/driver_checks/proven.toml"))
    if names and sample is not None:
        raise ConfigurationError("--sample and MUTANT exclude each other", "remove one of them")
    if seed is not None and sample is None:
        raise ConfigurationError("--seed needs --sample", "pass --sample, or remove --seed")
    if sample is None:
        return list(dict.fromkeys(names)) or known
    return [*WITHOUT_FAULT, *random.Random(seed).sample(sorted(MUTANTS), min(sample, len(MUTANTS)))]


def exit_code(proofs: Sequence[Proof], planned: int) -> int:
    """0: all are as they must be; 1: one is not; 3: a result is void or missing."""
    if any(proof.error for proof in proofs) or len(proofs) < planned:
        return 3
    return 0 if all(proof.ok for proof in proofs) else 1


def catches(proofs: Sequence[Proof]) -> dict[str, list[str]]:
    """The mutants that each check caught, in the order of the checks."""
    return {check: sorted(proof.driver for proof in proofs if check in proof.caught_by) for check in CHECKS}


def proven_text(found: dict[str, list[str]]) -> str:
    """The content of proven.toml."""
    return _HEADER + "".join(f"{check} = {json.dumps(mutants)}\n" for check, mutants in sorted(found.items()))


def to_json(proofs: Sequence[Proof]) -> str:
    """The results as JSON."""
    found = catches(proofs)
    unproven = [check for check, mutants in found.items() if not mutants]
    drivers = [{**asdict(proof), "ok": proof.ok} for proof in proofs]
    return json.dumps({"format": FORMAT, "drivers": drivers, "checks": found, "unproven": unproven}, indent=2)


def summary_lines(proofs: Sequence[Proof], *, whole: bool) -> list[str]:
    """The kill matrix by check, and the totals. `whole`: all mutants were checked, so a check without one is named."""
    found = {check: mutants for check, mutants in catches(proofs).items() if mutants or whole}
    width = max(map(len, found), default=0)
    lines = ["", *(f"{check:{width}}  {', '.join(mutants) or 'UNPROVEN'}" for check, mutants in found.items()), ""]
    mutants = [proof for proof in proofs if proof.driver not in WITHOUT_FAULT]
    right = sum(proof.ok for proof in mutants)
    lines.append(f"{right} of {len(mutants)} mutants caught, by {sum(map(bool, found.values()))} checks")
    return lines


def _outcome(proof: Proof) -> str:
    if proof.error:
        return "VOID"
    return "ok" if proof.ok else "WRONG"


def _line(proof: Proof) -> str:
    if proof.error:
        return f"{proof.driver}: {proof.error}"
    parts = [f"caught by {', '.join(proof.caught_by)}"] if proof.caught_by else []
    parts += [f"not caught by {one}" for one in proof.missed_by]
    parts += [f"unrelated failure of {one}" for one in proof.unrelated]
    return f"{proof.driver}: {'; '.join(parts) or 'conforms'}"


def _proofs(names: Sequence[str], show: Callable[[Proof], None]) -> list[Proof]:
    """Checks the drivers; SIGTERM and SIGINT end them all. Returns the results so far."""
    found: list[Proof] = []

    def done(proof: Proof) -> None:
        found.append(proof)
        show(proof)

    with suppress(asyncio.CancelledError):
        run_terminable(prove(names, done, adapters=FaultAdapters))
    return sorted(found, key=lambda proof: proof.driver)
