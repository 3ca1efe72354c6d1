"""The lists of subcommands in `--help`: they build and import no subcommand, and show the help of each."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer import Context
from typer.main import get_group

from drahealth.fakes.program.usage import CommandGroup
from drahealth.suites.command import app

OF_SUITES = {f"drahealth.suites.{name}" for name in ("__main__", "command", "errors")}
OF_CTL = {f"drahealth.fakes.ctl.{name}" for name in ("own_commands", "subcommands", "connection")}
HEAVY = {"asyncio", "grpc", "google.protobuf", "aiohttp", "pydantic", "pytest", "ruamel.yaml", "jinja2"}


def commands(group: CommandGroup) -> Iterator[tuple[Any, Any]]:
    """Each command below this one: as lists show it, and complete."""
    context = Context(group)
    for name in group.list_commands(context):
        complete = group.load(name)
        yield group.get_command(context, name), complete
        if isinstance(complete, CommandGroup):
            yield from commands(complete)


def first_paragraph(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


@pytest.mark.parametrize("words", [["--help"], ["ctl", "--help"]], ids=" ".join)
def test_help_imports_nothing_heavy_and_no_subcommand(words: list[str]) -> None:
    code = f"import sys; sys.argv[1:] = {words}\nfrom drahealth.suites.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: print(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {"typer.rich_utils", *HEAVY, *OF_CTL} & loaded == {"typer.rich_utils"}
    assert {name for name in loaded if name.startswith("drahealth.suites.")} <= OF_SUITES


def test_lists_show_the_first_paragraph_of_each_help() -> None:
    group: Any = get_group(app)
    found = list(commands(group))
    assert {"run", "binaries", "ctl", "set", "inject"} <= {listed.name for listed, _ in found}
    shown = [(listed.name, first_paragraph(listed.help)) for listed, _ in found]
    assert shown == [(complete.name, first_paragraph(complete.help)) for _, complete in found]
