"""`drahealth logs`: the logs of a node, by the program tail(1)."""

import os
import shutil

from drahealth.fakes.hints import near
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.up_command.folder import NodeFolder


def show_log(folder: NodeFolder, component: str | None, *, follow: bool, lines: int | None) -> None:
    """Replaces this process by tail; without a component it prints their names. Raises HarnessError."""
    names = sorted(path.stem for path in folder.logs.glob("*.log"))
    if component is None:
        print("\n".join(names))  # noqa: T201
        return
    if component not in names:
        raise ConfigurationError(f"node {folder.name} has no log of {component!r}", near(component, names))
    program = shutil.which("tail")
    if program is None:
        raise HarnessError("the program tail is missing", "install coreutils")
    log = str(folder.logs / f"{component}.log")
    os.execv(program, ["tail", "-n", "+1" if lines is None else str(lines), *(["-F"] if follow else []), log])
