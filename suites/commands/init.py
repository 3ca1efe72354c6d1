"""`drahealth init`: the starting files, and the command that uses each."""

import shlex
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from drahealth.fakes.hints import near
from drahealth.fakes.program.usage import command_name
from drahealth.suites.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Starter:
    """A starting file."""

    file: str
    """Its name, here and where it is written."""
    used_by: str
    """The command that uses it, without the name of the file."""

    @staticmethod
    def of(kind: str) -> "Starter":
        """The starter of this kind. Raises ConfigurationError for an unknown kind."""
        if kind not in STARTERS:
            raise ConfigurationError(f"unknown kind of file {kind!r}", near(kind, STARTERS))
        return STARTERS[kind]

    def text(self) -> str:
        """The content of the file."""
        return resources.files(__package__).joinpath("shipped", self.file).read_text(encoding="utf-8")

    def write(self, path: Path) -> None:
        """Writes a new file. Raises ConfigurationError if the file exists or cannot be written."""
        write_new(path, self.text())

    def next_command(self, path: Path) -> str:
        """The command that uses the file."""
        return f"{command_name()} {self.used_by} {shlex.quote(str(path))}"


def write_new(path: Path, text: str, option: str = "") -> None:
    """Writes a new file. Raises ConfigurationError if it exists or cannot be written; `option` is the one to pass."""
    with_option = f" with {option}" if option else ""
    try:
        with path.open("x", encoding="utf-8") as output:
            output.write(text)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists", f"pass the name of a new file{with_option}") from None
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}", f"pass another file{with_option}") from None


STARTERS = {
    "timeline": Starter("gpu.timeline.yaml", "play"),
    "inventory": Starter("gpus.yaml", "up -f"),
    "pod": Starter("pod.yaml", "load"),
}
"""By the kind that the user names."""


app = typer.Typer()


def _kinds() -> list[str]:
    return list(STARTERS)


@app.command("init")
def init(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="timeline, inventory or pod.", autocompletion=_kinds, show_default=False),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(
            help="New file; - is standard output. Default: gpu.timeline.yaml, gpus.yaml or pod.yaml.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a starting file with comments: a timeline, an inventory, or a Pod with its claim."""
    starter = Starter.of(kind)
    if str(file) == "-":
        typer.echo(starter.text(), nl=False)
        return
    path = file or Path(starter.file)
    starter.write(path)
    typer.echo(f"wrote {path}; next: {starter.next_command(path)}")
