"""The starting files of `drahealth init`: their texts, and the command that uses each."""

import shlex
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from drahealth.fakes.hints import near
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
        try:
            with path.open("x", encoding="utf-8") as output:
                output.write(self.text())
        except FileExistsError:
            raise ConfigurationError(f"{path} exists", "pass the name of a new file") from None
        except OSError as error:
            raise ConfigurationError(f"cannot write {path}: {error.strerror}", "pass another file") from None

    def next_command(self, path: Path) -> str:
        """The command that uses the file."""
        return f"drahealth {self.used_by} {shlex.quote(str(path))}"


STARTERS = {
    "timeline": Starter("gpu.timeline.yaml", "play"),
    "inventory": Starter("gpus.yaml", "up -f"),
    "pod": Starter("pod.yaml", "load"),
}
"""By the kind that the user names."""
