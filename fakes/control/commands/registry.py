"""All commands, by the fake that knows them."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from drahealth.fakes.control.commands.definition import Definition, Subject, known
from drahealth.fakes.hints import near

_PACKAGE = "drahealth.fakes.control.commands"
_MODULES = [f"{_PACKAGE}.{name}" for name in ("devices", "reports", "plugin_devices", "life", "streams", "questions")]
"""The modules that define commands, in the order of lists. They are imported when they are needed."""
_WITH_SUBCOMMANDS = [f"{_PACKAGE}.{name}" for name in ("devices", "life", "streams")]
"""Those that define subcommands of `ctl`. The others import more, and `ctl` starts without them."""
_RENAMED = {
    "heal": "reset",
    "hush": "stream_silence or stream_restore",
    "fault_streams": "stream_stall, stream_delay, stream_drop, stream_duplicate, stream_reorder, stream_partial or "
    "stream_skew",
    "restore_streams": "stream_restore",
    "end_streams": "stream_close",
    "send_raw": "stream_send",
}
"""What commands are called now that once had another name."""


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
    if name in _RENAMED:
        raise ValueError(f"command {name!r} was renamed to {_RENAMED[name]}")
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
