"""The flags of a subcommand that are derived from the options of the targets."""

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drahealth.suites.errors import ConfigurationError

if TYPE_CHECKING:
    from drahealth.suites.targets.option import Command, Option

Given = dict[str, str | None]
"""Texts by the names of the options, with `target` among them; None stands for an option that is not given."""

_GIVEN = "given"


def takes_target_options(command: "Command") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds `--target` and the options of all targets to a subcommand, which gets them as its argument `given`."""
    return lambda subcommand: _with_flags(subcommand, command)


def _with_flags(subcommand: Callable[..., None], command: "Command") -> Callable[..., None]:
    from drahealth.suites.targets import registry

    own = inspect.signature(subcommand, eval_str=True).parameters
    flags = {flag.name: flag for flag in _flags(command)}
    renamed = {old: option.name for option, _ in registry.options(command) for old in option.old_names}
    target, *others = [*flags.values(), *map(_renamed_flag, renamed)]
    rest = [own[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in own if name != _GIVEN]
    parameters = [target, *rest, *others]

    @wraps(subcommand)
    def call(**arguments: Any) -> None:
        for old, new in renamed.items():
            if arguments.pop(old) is not None:
                raise ConfigurationError(f"--{old} was renamed to --{new}")
        given = {name.replace("_", "-"): _text(arguments.pop(name)) for name in flags}
        subcommand(given=given, **arguments)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _flags(command: "Command") -> Iterator[inspect.Parameter]:
    from drahealth.suites.targets import registry

    yield _flag(registry.target_option(command), None)
    for option, targets in registry.options(command):
        everywhere = len(targets) == len(registry.FOLDERS)
        several = "s" if len(targets) > 1 else ""
        yield _flag(option, None if everywhere else f"Options of the {' and '.join(targets)} target{several}")


def _flag(option: "Option[Any]", panel: str | None) -> inspect.Parameter:
    """The parameter that typer makes a flag of; `panel` is the heading that it is listed below."""
    kind: Any = bool if option.is_switch else str | None
    metavar = option.metavar or None
    shown = typer.Option(
        f"--{option.name}",
        metavar=metavar,
        help=option.help,
        rich_help_panel=panel,
        show_default=False,
        autocompletion=option.choices,
    )
    return inspect.Parameter(
        option.name.replace("-", "_"),
        inspect.Parameter.KEYWORD_ONLY,
        default=False if option.is_switch else None,
        annotation=Annotated[kind, shown],
    )


def _renamed_flag(old: str) -> inspect.Parameter:
    """A hidden flag, so that its use has an error of its own."""
    shown = typer.Option(f"--{old}", hidden=True)
    return inspect.Parameter(old, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, shown])


def _text(value: str | bool | None) -> str | None:
    """The text of an option's value; that of a switch is "true", or there is none."""
    if isinstance(value, bool):
        return "true" if value else None
    return value
