"""The command of the differential test. It plays scripts from a seed or from files."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from drahealth.fakes.program.usage import SingleCommand
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
_TARGETS = list(registry.definitions(Capability.SET_RESYNC))
"""The targets without periodic syncs. Scripts request each sync of a pod."""
_NAMES = ", ".join(target.name for target in _TARGETS)
_DEFAULT = next(target.name for target in _TARGETS if not target.can(Capability.ADVANCE_TIME))

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=SingleCommand)
def differential(
    scripts: Annotated[int, typer.Option(min=1, help="Number of scripts.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the scripts; the same seed gives the same scripts.")] = 1,
    first: Annotated[
        int, typer.Option(min=0, help="Number of the first script. With it, a run continues an earlier run.")
    ] = 0,
    lanes: Annotated[int, typer.Option(min=1, max=40, help="Number of scripts that are played at the same time.")] = 16,
    target: Annotated[str, typer.Option(help=f"Target to compare with the reference: {_NAMES}.")] = _DEFAULT,
    kubernetes: Annotated[str, typer.Option(help="Release of the kubelet.")] = DEFAULT_VERSION,
    profile: Annotated[
        str | None, typer.Option(help="Profile of the reference; default: the profile of the release.")
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.json", help="Play this script, and generate none. The option can be repeated."),
    ] = None,
    record: Annotated[
        bool,
        typer.Option("--record", help="Update the statuses in the replayed files, if nothing differs."),
    ] = False,
    shrinks: Annotated[int, typer.Option(min=0, help="Maximum number of differing scripts to minimize.")] = 3,
    plays: Annotated[int, typer.Option(min=0, help="Maximum number of plays to minimize one script.")] = 60,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for scripts that differ.")] = Path(),
) -> None:
    """Play generated scripts on a real kubelet and on the reference, and compare the statuses of the Pods.

    Exit codes: 0 no difference, 1 differences, 2 wrong usage, 3 error in the environment.
    """
    try:
        if record and not replay:
            raise ConfigurationError("--record needs --replay", "name the files with --replay FILE.json")
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
    """The target with the behavior of this release. Raises ConfigurationError."""
    definition = registry.definition(target, Capability.SET_RESYNC)
    behaves_as = profile_of(parse_version(kubernetes)).name
    by_profile = PROFILE.name in {option.name for option in definition.options}  # otherwise the release decides
    given: dict[str, str | None] = {PROFILE.name: behaves_as} if by_profile else {"kubernetes": kubernetes}
    return Compared(definition, definition.configure(registry.values(definition, "run", given)))


def _generated(seed: int, first: int, count: int) -> dict[int, Script]:
    from drahealth.suites.differential.generation import generate

    return dict(enumerate(generate(seed, first + count)[first:], start=first))
