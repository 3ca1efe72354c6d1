"""The command: scripts from a seed, or those of files, played on a real kubelet and on the reference."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from drahealth.manager.profile import PROFILES, Profile, for_release
from drahealth.suites.differential.record import load_scripts
from drahealth.suites.differential.running import Plan, run
from drahealth.suites.differential.script import Script
from drahealth.suites.errors import ConfigurationError, HarnessError, told
from drahealth.suites.targets.kubelet.binaries.releases import DEFAULT_VERSION, parse_version

USAGE, ENVIRONMENT = 2, 3
_TARGETS = ("kubelet", "reference")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def differential(
    scripts: Annotated[int, typer.Option(min=1, help="How many scripts.")] = 60,
    seed: Annotated[int, typer.Option(help="What they are drawn from; the same seed gives the same scripts.")] = 1,
    first: Annotated[int, typer.Option(min=0, help="The number of the first one, to go on with a seed.")] = 0,
    lanes: Annotated[int, typer.Option(min=1, max=40, help="How many scripts are played at a time.")] = 16,
    target: Annotated[
        str, typer.Option(help="What is compared: a real kubelet, or the reference as that release, which is quick.")
    ] = _TARGETS[0],
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
        if target not in _TARGETS:
            raise ConfigurationError(f"there is no target {target!r} here", f"choose one of {', '.join(_TARGETS)}")
        if record and not replay:
            raise ConfigurationError("--record is for files that are replayed", "name them with --replay")
        parse_version(kubernetes)
        release = _release(kubernetes)
        chosen = load_scripts(replay) if replay else _generated(seed, first, scripts)
        plan = Plan(chosen, target, kubernetes, release, _profile(profile) or release, lanes, shrinks, plays, out)
        code = asyncio.run(run(plan, typer.echo, replay if record else None))
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        code = USAGE
    except HarnessError as error:
        sys.stderr.write(f"{told(error)}\n")
        code = ENVIRONMENT
    raise typer.Exit(code)


def main() -> None:
    app()


def _profile(name: str | None) -> Profile | None:
    if name is not None and name not in PROFILES:
        raise ConfigurationError(f"there is no profile {name!r}", f"choose one of {', '.join(PROFILES)}")
    return PROFILES[name] if name else None


def _release(kubernetes: str) -> Profile:
    row = for_release(kubernetes)
    if row is None:
        known = ", ".join(p.release for p in PROFILES.values() if p.release)
        raise ConfigurationError(
            f"how kubelets of Kubernetes {kubernetes} behave is not written down yet", f"choose a release of {known}"
        )
    return row


def _generated(seed: int, first: int, count: int) -> dict[int, Script]:
    from drahealth.suites.differential.generation import generate

    return dict(enumerate(generate(seed, first + count)[first:], start=first))
