"""The lists of subcommands in `--help`: they build and import no subcommand, and show the help of each."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer import Context, Typer
from typer.core import TyperGroup
from typer.main import get_group

from drahealth.fakes.ctl.command import app as ctl
from drahealth.fakes.program.usage import DeferredCommand
from drahealth.suites.command import app as drahealth

OF_SUITES = {
    f"drahealth.suites.{name}" for name in ("__main__", "command", "commands", "commands.completion", "errors")
}
OF_CTL = {f"drahealth.fakes.ctl.{name}" for name in ("own_commands", "subcommands", "connection")}
HEAVY = {"asyncio", "grpc", "google.protobuf", "aiohttp", "pydantic", "pytest", "ruamel.yaml", "jinja2"}


def deferred(group: TyperGroup) -> Iterator[DeferredCommand]:
    """All commands below this one that are built when they are used."""
    context = Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        below = command
        if isinstance(command, DeferredCommand):
            yield command
            below = command.complete
        if isinstance(below, TyperGroup):
            yield from deferred(below)


def first_paragraph(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


@pytest.mark.parametrize("app", [drahealth, ctl], ids=["drahealth", "ctl"])
def test_help_builds_no_subcommand(app: Typer, capsys: pytest.CaptureFixture[str]) -> None:
    group = get_group(app)
    group.main(["--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    listed = [command for command in group.commands.values() if isinstance(command, DeferredCommand)]
    assert [command.name for command in listed if f" {command.name} " not in shown] == []
    assert [command.name for command in listed if "complete" in vars(command)] == []


@pytest.mark.parametrize("words", [["--help"], ["ctl", "--help"]], ids=" ".join)
def test_help_imports_nothing_heavy_and_no_subcommand(words: list[str]) -> None:
    code = f"import sys; sys.argv[1:] = {words}\nfrom drahealth.suites.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: print(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {"typer.rich_utils", *HEAVY, *OF_CTL} & loaded == {"typer.rich_utils"}
    assert {name for name in loaded if name.startswith("drahealth.suites.")} <= OF_SUITES


def test_lists_show_the_first_paragraph_of_each_help() -> None:
    found = list(deferred(get_group(drahealth)))
    assert {"run", "binaries", "ctl", "set", "inject"} <= {command.name for command in found}
    shown = [(command.name, first_paragraph(command.help)) for command in found]
    assert shown == [(command.name, first_paragraph(command.complete.help)) for command in found]
