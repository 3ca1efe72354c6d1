"""All commands, by the fake that knows them."""

from drahealth.fakes.control.commands import devices, life, plugin_devices, questions, streams
from drahealth.fakes.control.commands.definition import Definition, Subject, known
from drahealth.fakes.hints import near

_MODULES = [module.__name__ for module in (devices, plugin_devices, life, streams, questions)]
"""Those that define commands, in the order of lists."""
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
    found = [definition for (of, _), definition in known.items() if of == subject]
    return sorted(found, key=lambda definition: _MODULES.index(definition.command.__module__))


def definition(subject: Subject, name: str) -> Definition:
    """The command of that name. Raises ValueError where there is none."""
    if found := known.get((subject, name)):
        return found
    if name in _RENAMED:
        raise ValueError(f"command {name!r} was renamed to {_RENAMED[name]}")
    names = [definition.name for definition in defined(subject)]
    raise ValueError(f"a {subject} has no command {name!r}; {near(name, names)}")
