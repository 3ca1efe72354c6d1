"""The definition of a command to a fake: its name, its arguments and its reply, each written once.

    @command("inject", undo=lambda done: Clear(done.fault, done.device))
    class Inject(Command[None]):
        '''Give devices a fault of the catalogue.'''

        fault: str = argument("Fault of the driver's catalogue, such as xid/48.")
        device: Devices = argument("A device such as gpu-0, a pattern such as gpu-*, or all.", Kind.DEVICES)

From it follow the call on the control socket (`wire`) and the methods of drivers in this process and elsewhere
(`surface`). So do the subcommand of `drahealth ctl`, the step of a timeline, its JSON Schema, and docs/commands.md.
Only the effect on the fake is separate (`surface.handles`).

Arguments are checked where a command is made: one that exists is well-formed. The standard library alone is needed
here, so that `drahealth ctl` starts at once.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar, dataclass_transform, get_args

from drahealth.fakes.control.commands.arguments import Argument, Joined, argument

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
    old_names: tuple[str, ...] = ()
    """Its earlier names, on the wire and in `ctl`. Their use is an error that gives the new name."""
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
    old_names: tuple[str, ...] = (),
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
            old_names,
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
