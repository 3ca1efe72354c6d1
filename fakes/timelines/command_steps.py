"""The steps of a timeline that are commands to a fake: what a file says of each is derived from its definition."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Tag, create_model, model_validator

from drahealth.fakes.control.commands.arguments import EACH, Argument, Kind
from drahealth.fakes.control.commands.definition import Command, Definition, Subject
from drahealth.fakes.control.commands.registry import defined
from drahealth.fakes.durations import Duration, Uniform
from drahealth.fakes.timelines.fields import Chance, Lasting, Offset, Part, Share, Taking, shape

_VALUES: Mapping[Kind, Any] = {
    Kind.TEXT: str,
    Kind.INTEGER: int,
    Kind.FLAG: Chance,
    Kind.DURATION: Lasting,
    Kind.INTERVAL: Lasting,
    Kind.RECOVERY_TIME: Taking,
    Kind.OFFSET: Offset,
    Kind.SHARE: Share,
    Kind.TEXTS: tuple[str, ...],
}
"""What a file says of an argument."""

STEPS = {definition.step: definition for definition in defined("driver") if definition.step.isidentifier()}
"""The commands that are steps of their own, such as `inject`."""


def group(subject: Subject, name: str) -> dict[str, Definition]:
    """The commands of a group of steps, such as `life crash`, by their last word."""
    known = (definition for definition in defined(subject) if definition.step.startswith(f"{name} "))
    return {definition.step.partition(" ")[2]: definition for definition in known}


@cache
def own(definition: Definition) -> tuple[Argument, ...]:
    """Its arguments besides the devices."""
    return tuple(argument for argument in definition.arguments if argument.kind is not Kind.DEVICES)


@cache
def _mapping(definition: Definition) -> Any:
    """All arguments by name."""
    fields: dict[str, Any] = {
        a.name: (_value(a) if a.required else _value(a) | None, _default(a)) for a in own(definition)
    }
    return create_model(f"{definition.command.__name__}Arguments", __base__=Part, **fields)


def _value(argument: Argument) -> Any:
    return Literal[argument.choices] if argument.choices else _VALUES[argument.kind]


def _default(argument: Argument) -> Any:
    return ... if argument.required else None


def written(definition: Definition) -> Any:
    """What a file says of the command: its first argument, or a mapping of all; of one without arguments, true."""
    arguments = own(definition)
    if not arguments:
        return Literal[True]
    if len(arguments) == 1:
        return _value(arguments[0])
    words: Any = Annotated[_value(arguments[0]), Tag("word")]
    return Annotated[words | Annotated[_mapping(definition), Tag("mapping")], Discriminator(shape)]


def draw(definition: Definition, written: Any, random: Uniform, **more: Any) -> Command[Any]:
    """The command that a file says. Raises ValueError for one that makes no sense."""
    arguments = own(definition)
    if isinstance(written, Part):
        values = {name: value for name in written.model_fields_set if (value := getattr(written, name)) is not None}
        more |= {a.name: _drawn(a, values[a.name], random) for a in arguments if a.name in values}
    elif arguments and written is not None:
        more[arguments[0].name] = written if type(written) is str else _drawn(arguments[0], written, random)
    return definition.command(**more)


def _drawn(argument: Argument, value: Any, random: Uniform) -> Any:
    match value:
        case Duration():
            return value.draw(random)
        case float() if argument.kind is Kind.FLAG:
            return random.random() < value
        case _ if argument.kind is Kind.RECOVERY_TIME and value == EACH:
            return None
    return value


class OneOf(Part):
    """Just one of several things."""

    @model_validator(mode="after")
    def _one(self) -> "OneOf":
        if len(self.model_fields_set) != 1:
            raise ValueError(f"set exactly one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def verb(self) -> str:
        """Which."""
        return next(iter(self.model_fields_set))


def renamed(**names: str) -> BeforeValidator:
    """Rejects old names, as a word or as a key, and says the new one."""

    def check(value: Any) -> Any:
        for word in [value] if isinstance(value, str) else [*value] if isinstance(value, dict) else []:
            if word in names:
                raise ValueError(f"{word} was renamed to {names[word]}")
        return value

    return BeforeValidator(check)


def stream_fields() -> dict[str, Any]:
    """What a step may say of the health streams: a command's argument, or how long one without arguments lasts."""
    found = group("driver", "stream")
    return {name: ((written(d) if own(d) else _FLAG_OR_TIME) | None, None) for name, d in found.items()}


def _flag(value: Any) -> str:
    return "flag" if isinstance(value, bool) else "time"


_FLAG_OR_TIME: Any = Annotated[
    Annotated[Literal[True], Tag("flag")] | Annotated[Lasting, Tag("time")], Discriminator(_flag)
]


def life_words(subject: Subject) -> Any:
    """The commands about the life of a fake, by a word."""
    return Literal[tuple(group(subject, "life"))]


if TYPE_CHECKING:
    CommandSteps = Part
    Life = OneOf
else:
    CommandSteps = create_model(
        "CommandSteps", __base__=Part, **{name: (written(d) | None, None) for name, d in STEPS.items()}
    )
    Life = create_model(
        "Life",
        __base__=OneOf,
        **{name: (_mapping(d) | None, None) for name, d in group("driver", "life").items() if own(d)},
    )
"""The steps that are commands, and the commands about a driver's life that have arguments."""
