"""The definition of a command to a fake: its name, its arguments and its reply; and all commands, by fake."""

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    overload,
)

from drahealth.fakes.hints import near

# The arguments of commands: how people write each kind of value, and what a program gets. Standard library alone.

Devices = str | tuple[str, ...]
"""Devices of one driver: a path (`gpu-0`, `gpu-0/mig-1`), a pattern (`gpu-*`), `all`, or several of these."""

EACH = "catalogue"
"""What a recovery time may be instead of a time: the time that the catalogue has for each fault."""


class Kind(StrEnum):
    """What a value is, and so how people write it."""

    TEXT = "text"
    DEVICES = "devices"
    FLAG = "flag"
    INTEGER = "integer"
    DURATION = "duration"
    """Seconds that pass on the driver's clock; a timeline that is played faster shortens them."""
    RECOVERY_TIME = "recovery time"
    """A duration, or `catalogue`, which is None."""
    INTERVAL = "interval"
    """Seconds between reports, a plain number; no timeline shortens them."""
    OFFSET = "offset"
    """Seconds before or after now, such as -5m."""
    SHARE = "share"
    """From 0 to 1, written as 20%."""
    TEXTS = "texts"
    DATA = "data"
    """Something that only programs send, such as the devices of a report."""


class Argument(NamedTuple):
    """One argument of a command."""

    help: str
    kind: Kind = Kind.TEXT
    option: str = ""
    """The name of its option in `drahealth ctl`; empty: it has a position."""
    metavar: str = ""
    name: str = ""
    """The name of its field."""
    choices: tuple[str, ...] = ()
    """The only values, if there are few."""
    required: bool = True
    default: Any = None


class Joined(NamedTuple):
    """How several arguments are written in one word, such as a taint."""

    metavar: str
    help: str
    parse: Callable[[str], dict[str, Any]]
    """The arguments by name. Raises ValueError."""


def argument(
    text: str,
    kind: Kind = Kind.TEXT,
    *,
    option: str = "",
    metavar: str = "",
    choices: tuple[str, ...] = (),
    **default: Any,
) -> Any:
    """A field of a command. `default` as keyword: what it is where nobody says."""
    return field(metadata={"argument": Argument(text, kind, option, metavar, choices=choices)}, **default)


def parse(argument: Argument, text: str) -> Any:
    """The value that a person has written. Raises ValueError for none of its kind."""
    return _PARSERS.get(argument.kind, str)(text)


def _seconds(text: str) -> float:
    from drahealth.fakes.durations import parse_signed  # most commands need none

    return parse_signed(text)


def _recovery_time(text: str) -> float | None:
    return None if text == EACH else _seconds(text)


def _share(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ValueError(f"must be between 0% and 100%, got {text!r}") from None


_PARSERS: dict[Kind, Callable[[str], Any]] = {
    Kind.INTEGER: int,
    Kind.DURATION: _seconds,
    Kind.RECOVERY_TIME: _recovery_time,
    Kind.INTERVAL: float,
    Kind.OFFSET: _seconds,
    Kind.SHARE: _share,
}


# The definition of a command to a fake: its name, its arguments and its reply, each written once.
#
#     @command("inject", undo=lambda done: Clear(done.fault, done.device))
#     class Inject(Command[None]):
#         '''Give devices a fault of the catalogue.'''
#
#         fault: str = argument("Fault of the driver's catalogue, such as xid/48.")
#         device: Devices = argument("A device such as gpu-0, a pattern such as gpu-*, or all.", Kind.DEVICES)
#
# From it follow the call on the control socket (`wire`) and the methods of drivers in this process and elsewhere
# (`surface`). So do the subcommand of `drahealth ctl`, the step of a timeline, its JSON Schema, and
# docs/reference/commands.md.
# Only the effect on the fake is separate (`surface.handles`).
#
# Arguments are checked where a command is made: one that exists is well-formed. The standard library alone is needed
# here, so that `drahealth ctl` starts at once.

Subject = Literal["driver", "device-plugin"]
Reply = TypeVar("Reply")
C = TypeVar("C", bound="Command[Any]")
BOTH: tuple[Subject, ...] = ("driver", "device-plugin")
DRIVER: tuple[Subject, ...] = ("driver",)
DEVICE_PLUGIN: tuple[Subject, ...] = ("device-plugin",)


class Command(Generic[Reply]):
    """A command to a fake. Its type argument is the type of the reply."""

    __slots__ = ()

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """The dataclass is made with its first instance: to make all of them would take `drahealth ctl` 30 ms."""
        return object.__new__(dataclass_of(cls))

    __hash__: Any
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}
    definition: ClassVar["Definition"]

    @property
    def verb(self) -> str:
        """Its name."""
        return self.definition.name

    def arguments(self) -> dict[str, Any]:
        """The values of its fields."""
        return {argument.name: getattr(self, argument.name) for argument in self.definition.arguments}

    def on(self, device: str | tuple[str, ...]) -> Self:
        """The same for other devices."""
        return type(self)(**{**self.arguments(), "device": device})

    def stated(self) -> dict[str, Any]:
        """Those that differ from their defaults."""
        return {a.name: value for a in self.definition.arguments if (value := getattr(self, a.name)) != a.default}


class Definition(NamedTuple):
    """What is known of a command."""

    name: str
    """On the wire, and of the method."""
    command: type[Command[Any]]
    subjects: tuple[Subject, ...]
    arguments: tuple[Argument, ...]
    reply: Any
    """The type of its reply."""
    help: str
    changes: bool
    """False: it only asks."""
    ctl: str
    """Its subcommand, such as `inject` or `stream drop`; empty: none of its own."""
    step: str
    """Its step in a timeline, such as `inject` or `driver crash`; empty: none of its own."""
    undo: Callable[[Any], Command[Any]] | None
    """The command that undoes one, where a timeline can say `for`."""
    joined: Joined | None = None
    """How its arguments besides the devices are written in one word."""

    def argument(self, name: str) -> Argument | None:
        """The argument of that name."""
        return next((argument for argument in self.arguments if argument.name == name), None)

    @property
    def has_devices(self) -> bool:
        """Whether the command has device arguments."""
        return self.argument("device") is not None


known: dict[tuple[Subject, str], Definition] = {}
"""All commands whose modules were imported (`registry` has all)."""


@dataclass_transform(frozen_default=True, field_specifiers=(argument,))
def command(
    name: str,
    subjects: tuple[Subject, ...] = BOTH,
    *,
    changes: bool = True,
    ctl: str | None = None,
    step: str | None = None,
    undo: Callable[[Any], Command[Any]] | None = None,
    joined: Joined | None = None,
) -> Callable[[type[C]], type[C]]:
    """Makes a frozen dataclass of a class and defines the command. `ctl`, `step` None: its name; empty: it has none."""

    def define(made: type[C]) -> type[C]:
        (reply,) = get_args(made.__orig_bases__[0])  # type: ignore[attr-defined]
        made.definition = Definition(
            name,
            made,
            subjects,
            tuple(_argument(name, vars(made)[name]) for name in made.__annotations__),
            reply,
            "\n\n".join(" ".join(part.split()) for part in (made.__doc__ or "").split("\n\n")),
            changes,
            name if ctl is None else ctl,
            name if step is None else step,
            undo,
            joined,
        )
        known.update({(subject, name): made.definition for subject in subjects})
        return made

    return define


def dataclass_of(made: type[C]) -> type[C]:
    """The class of a command as a dataclass."""
    return made if "__dataclass_fields__" in vars(made) else dataclass(frozen=True)(made)


def _argument(name: str, field: "dataclasses.Field[Any]") -> Argument:
    known: Argument = field.metadata["argument"]
    required = field.default is dataclasses.MISSING
    return known._replace(name=name, required=required, default=field.default)


# Who takes commands: `do` takes any of them, and each command is a method with the same arguments.

P = ParamSpec("P")
Given = TypeVar("Given", bound=Command[Any])
Done = TypeVar("Done")


class Control(ABC):
    """The control surface of a fake, wherever that is."""

    @abstractmethod
    async def do(self, command: Command[Reply]) -> Reply:
        """Does it. Raises ValueError for a command that makes no sense; nothing changes then."""


class SyncControl(Control):
    """A control surface whose methods return when the command is done: they are no coroutine functions."""

    @abstractmethod
    def wait_for(self, done: Coroutine[Any, Any, Reply]) -> Reply:
        """Runs the coroutine in the event loop of the fake, and waits for its result."""


class Method(Generic[P, Reply]):
    """A method that makes a command of its arguments, and does it: `control.inject("xid/48", "gpu-0")`."""

    def __init__(self, command: Callable[P, Command[Reply]]) -> None:
        self.command = command
        self.__doc__ = command.__doc__

    @overload
    def __get__(self, control: None, owner: type) -> "Method[P, Reply]": ...
    @overload
    def __get__(self, control: SyncControl, owner: type) -> Callable[P, Reply]: ...
    @overload
    def __get__(self, control: Control, owner: type) -> Callable[P, Coroutine[Any, Any, Reply]]: ...
    def __get__(self, control: Control | None, owner: type) -> Any:
        if control is None:
            return self

        @functools.wraps(self.command, updated=())
        async def method(*args: P.args, **named: P.kwargs) -> Reply:
            return await control.do(self.command(*args, **named))

        if not isinstance(control, SyncControl):
            return method

        @functools.wraps(self.command, updated=())
        def sync_method(*args: P.args, **named: P.kwargs) -> Reply:
            __tracebackhide__ = True  # pytest then shows the line of the test
            return control.wait_for(method(*args, **named))

        return sync_method


def handles(*commands: type[Given]) -> Callable[[Callable[[Any, Given], Done]], Callable[[Any, Given], Done]]:
    """Marks the method of a `Handlers` that does these commands."""

    def mark(method: Callable[[Any, Given], Done]) -> Callable[[Any, Given], Done]:
        method.__dict__["commands"] = commands
        return method

    return mark


class Handlers(Control):
    """A fake in this process, which has a method for each of its commands (`handles`)."""

    _handlers: ClassVar[dict[type[Command[Any]], str]] = {}
    """The methods by name, so that a subclass can replace one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found = {kind: name for name, method in vars(cls).items() for kind in getattr(method, "commands", ())}
        cls._handlers = {**cls._handlers, **found}

    @classmethod
    def handled(cls) -> set[type[Command[Any]]]:
        """The commands that it knows."""
        return set(cls._handlers)

    async def do(self, command: Command[Reply]) -> Reply:
        if type(command) not in self._handlers:
            raise ValueError(f"{type(self).__name__} has no command {command.definition.name!r}")
        reply: Reply = await getattr(self, self._handlers[type(command)])(command)
        return reply


_WITH_SUBCOMMANDS = "drahealth.fakes.control.commands"
_MODULES = [_WITH_SUBCOMMANDS, "drahealth.fakes.control.without_subcommand"]
"""The modules that define commands, in the order of lists. They are imported when they are needed: the second one
imports more, and `ctl` starts without it."""


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
    """The definitions of a `ctl` subcommand, by the fakes that know it."""
    import_module(_WITH_SUBCOMMANDS)
    return {of: definition for (of, _), definition in known.items() if definition.ctl == words}


def widest(definitions: Mapping[Subject, Definition]) -> Definition:
    """The one of a subcommand's definitions with the most arguments: the subcommand has its arguments and help."""
    return max(definitions.values(), key=lambda definition: len(definition.arguments))


def subcommands() -> list[str]:
    """The words of all `ctl` subcommands, in the order of lists."""
    import_module(_WITH_SUBCOMMANDS)
    return list(dict.fromkeys(definition.ctl for definition in known.values() if definition.ctl))


@cache
def _import_all() -> None:
    for module in _MODULES:
        import_module(module)
