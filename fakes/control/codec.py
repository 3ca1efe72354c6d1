"""Commands as JSON: their arguments on the way to a fake, and its reply on the way back."""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from drahealth.fakes.control.commands.definition import Command, Subject, dataclass_of
from drahealth.fakes.control.commands.registry import definition
from drahealth.fakes.program.error_wording import plain

Reply = TypeVar("Reply")


def encode(command: Command[Any]) -> dict[str, Any]:
    """Its arguments as JSON has them."""
    plain: dict[str, Any] = to_jsonable_python(command.arguments())
    return plain


def decode(subject: Subject, name: str, args: Mapping[str, Any]) -> Command[Any]:
    """The command of that name with these arguments. Raises ValueError for an unknown command and wrong arguments."""
    found: Any = dataclass_of(definition(subject, name).command)
    try:
        command: Command[Any] = _adapter(found).validate_python(args)
    except ValidationError as error:
        raise ValueError(wrong_arguments(error)) from None
    return command


def encode_reply(reply: Any) -> Any:
    """As JSON has it."""
    return to_jsonable_python(reply)


def decode_reply(command: Command[Reply], reply: Any) -> Reply:
    """What the fake has replied. Raises ValueError for something else."""
    decoded: Reply = _adapter(command.definition.reply).validate_python(reply)
    return decoded


def wrong_arguments(error: ValidationError) -> str:
    """The error in arguments, in one sentence."""
    return "; ".join(": ".join(filter(None, (".".join(map(str, e["loc"])), _why(e)))) for e in error.errors())


def _why(error: Any) -> str:
    return str(error["ctx"]["error"]) if error["type"] == "value_error" else plain(str(error["msg"]))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
