"""All commands, by the fake that knows them."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from drahealth.fakes.control.commands.definition import Definition, Subject, known
from drahealth.fakes.hints import near

_PACKAGE = "drahealth.fakes.control.commands"
_MODULES = [f"{_PACKAGE}.{name}" for name in ("devices", "life", "streams", "without_subcommand")]
"""The modules that define commands, in the order of lists. They are imported when they are needed."""
_WITH_SUBCOMMANDS = [f"{_PACKAGE}.{name}" for name in ("devices", "life", "streams")]
"""Those that define subcommands of `ctl`. The others import more, and `ctl` starts without them."""


def defined(subject: Subject) -> list[Definition]:
    """The commands that such a fake knows."""
    _import_all()
    found = [definition for (of, _), definition in known.items() if of == subject]
    return sorted(found, key=lambda definition: _MODULES.index(definition.command.__module__))


def definition(subject: Subject, name: str) -> Definition:
    """The command of that name. Raises ValueError where there is none."""
    _import_all()
    if found := known.get((subject, name)):
        return found
    names = [definition.name for definition in defined(subject)]
    raise ValueError(f"a {subject} has no command {name!r}; {near(name, names)}")


def with_subcommand(words: str) -> dict[Subject, Definition]:
    """The definitions of a `ctl` subcommand, by the fakes that know it. It imports only the modules it needs: one
    module defines a subcommand for all fakes."""
    for module in _WITH_SUBCOMMANDS:
        import_module(module)
        if found := {of: definition for (of, _), definition in known.items() if definition.ctl == words}:
            return found
    return {}


def widest(definitions: Mapping[Subject, Definition]) -> Definition:
    """The one of a subcommand's definitions with the most arguments: the subcommand has its arguments and help."""
    return max(definitions.values(), key=lambda definition: len(definition.arguments))


def subcommands() -> list[str]:
    """The words of all `ctl` subcommands, in the order of lists."""
    for module in _WITH_SUBCOMMANDS:
        import_module(module)
    order = sorted(known.values(), key=lambda definition: _MODULES.index(definition.command.__module__))
    return list(dict.fromkeys(definition.ctl for definition in order if definition.ctl))


@cache
def _import_all() -> None:
    for module in _MODULES:
        import_module(module)
