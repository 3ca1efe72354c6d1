"""The command: scripts from a seed, or those of files, played on a real kubelet and on the reference."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from drahealth.suites.differential.record import load_scripts
from drahealth.suites.differential.running import Compared, Plan, run
from drahealth.suites.differential.script import Script
from drahealth.suites.errors import ConfigurationError, HarnessError, full_text
from drahealth.suites.targets import registry
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION
from drahealth.suites.targets.reference.options import PROFILE
from drahealth.suites.targets.versions import parse_version, profile_of

USAGE, ENVIRONMENT = 2, 3
_TARGETS = [target for target in registry.definitions() if target.can(Capability.SET_RESYNC)]
"""What can be compared: scripts say themselves when a pod is synced."""
_NAMES = ", ".join(target.name for target in _TARGETS)
_DEFAULT = next(target.name for target in _TARGETS if not target.can(Capability.ADVANCE_TIME))

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def differential(
    scripts: Annotated[int, typer.Option(min=1, help="How many scripts.")] = 60,
    seed: Annotated[int, typer.Option(help="What they are drawn from; the same seed gives the same scripts.")] = 1,
    first: Annotated[int, typer.Option(min=0, help="The number of the first one, to go on with a seed.")] = 0,
    lanes: Annotated[int, typer.Option(min=1, max=40, help="How many scripts are played at a time.")] = 16,
    target: Annotated[str, typer.Option(help=f"Target to compare with the reference: {_NAMES}.")] = _DEFAULT,
    kubernetes: Annotated[str, typer.Option(help="The release of the kubelet.")] = DEFAULT_VERSION,
    profile: Annotated[
        str | None, typer.Option(help="What the reference behaves as; by itself, as that release.")
    ] = None,
    replay: Annotated[
        list[Path] | None, typer.Option(metavar="FILE.json", help="Play this script instead; may be given again.")
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Write into the replayed files what was seen, if it was the same.")
    ] = False,
    shrinks: Annotated[int, typer.Option(min=0, help="How many scripts that differ are made smaller.")] = 3,
    plays: Annotated[int, typer.Option(min=0, help="How many plays that may take, for each.")] = 60,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where scripts that differ are written.")] = Path(),
) -> None:
    """Play generated scripts on a real kubelet and on the reference, and compare what the pods show.

    Exits 0 no difference, 1 differences, 2 usage, 3 environment.
    """
    try:
        if record and not replay:
            raise ConfigurationError("--record is for files that are replayed", "name them with --replay")
        subject = _subject(target, kubernetes)
        beside = PROFILE.value(profile) if profile else subject.configuration.profile
        chosen = load_scripts(replay) if replay else _generated(seed, first, scripts)
        plan = Plan(chosen, subject, kubernetes, beside, lanes, shrinks, plays, out)
        code = asyncio.run(run(plan, typer.echo, replay if record else None))
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        code = USAGE
    except HarnessError as error:
        sys.stderr.write(f"{full_text(error)}\n")
        code = ENVIRONMENT
    raise typer.Exit(code)


def main() -> None:
    app()


def _subject(target: str, kubernetes: str) -> Compared:
    """The target with the behaviour of this release. Raises ConfigurationError."""
    definition = registry.definition(target)
    if not definition.can(Capability.SET_RESYNC):
        raise ConfigurationError(f"--target must be one of {_NAMES}, got {target!r}")
    behaves_as = profile_of(parse_version(kubernetes)).name
    given = {"kubernetes": kubernetes, "profile": behaves_as}
    taken = {option.name: given.get(option.name) for option in definition.options}
    return Compared(definition, definition.configure(registry.values(definition, "run", taken)))


def _generated(seed: int, first: int, count: int) -> dict[int, Script]:
    from drahealth.suites.differential.generation import generate

    return dict(enumerate(generate(seed, first + count)[first:], start=first))
