"""The package itself: its public names, and the environment of its processes."""

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

# The public names of a part of drahealth, each imported at its first use (PEP 562).
#
# So `import drahealth.fakes` loads nothing else: `drahealth ctl` starts through that package, and pytest through
# `drahealth.suites`. A package names its exports once, in imports below `if TYPE_CHECKING:`, where type checkers and
# editors see them. They are read from its source when the first name is used.


def exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of the package."""

    def get(name: str) -> Any:
        module = modules_of(package).get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules_of(package)})

    return get, names


@cache
def modules_of(package: str) -> dict[str, str]:
    """The exported names of the package, each with the module that defines it."""
    import ast  # here, because most importers of the package use none of its names
    from pathlib import Path

    source = Path(sys.modules[package].__file__ or "").read_text()
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports if node.module for alias in node.names}


# The environment variables that this process sets for itself, and the environment of other people's programs.

_GRPC, _QUIET = "GRPC_VERBOSITY", "NONE"


def silence_grpc() -> None:
    """Silences the log lines that gRPC writes itself: calls raise their errors. A value of the user stays.

    gRPC reads the variable when it is imported for the first time.
    """
    os.environ.setdefault(_GRPC, _QUIET)


def environment_of_others() -> dict[str, str]:
    """The environment for programs that are not ours, such as a driver under test: their gRPC logs as usual."""
    return {name: value for name, value in os.environ.items() if (name, value) != (_GRPC, _QUIET)}
