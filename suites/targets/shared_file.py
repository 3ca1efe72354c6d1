"""How the controller of a distributed run tells its workers about what they share."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drahealth.suites.errors import HarnessError


@dataclass(frozen=True)
class SharedFile:
    """The file that describes a shared environment, and the number of the worker that reads it."""

    path: Path
    worker: int = 0

    def write(self, description: Mapping[str, Any] | HarnessError) -> None:
        """Describes the environment, or says why there is none."""
        if isinstance(description, HarnessError):
            content: dict[str, Any] = {"error": [description.message, description.hint]}
        else:
            content = {"shared": description}
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(content))
        draft.replace(self.path)

    def read(self) -> dict[str, Any]:
        """The description. Raises HarnessError if there is none."""
        try:
            content: dict[str, Any] = json.loads(self.path.read_text())
        except (OSError, ValueError) as error:
            raise HarnessError(f"The controller of this run did not describe what its workers share: {error}") from None
        if "error" in content:
            raise HarnessError(*content["error"])
        shared: dict[str, Any] = content["shared"]
        return shared
