"""The subcommands of `drahealth ctl` that are commands of a fake: made from their definitions."""

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from drahealth.fakes.control.commands import registry
from drahealth.fakes.control.commands.definition import Argument, Definition, Kind, Subject, parse
from drahealth.fakes.ctl.driver import driver_of
from drahealth.fakes.ctl.outcomes import show_outcome
from drahealth.fakes.program.errors import CommandError


def _faults() -> Iterable[str]:
    from drahealth.fakes.faults.catalogue import every_fault  # only completion needs it

    return every_fault()


def _actions() -> Iterable[str]:
    from drahealth.fakes.faults.catalogue import ACTIONS  # only completion needs it

    return ACTIONS


_VALUES: Mapping[str, Callable[[], Iterable[str]]] = {"fault": _faults, "action": _actions}
"""The values of arguments with these names, for shell completion."""
_TIMES = (Kind.DURATION, Kind.OFFSET)
"""What may begin with a minus, as an option does."""


def add_subcommand(app: typer.Typer, name: str, definitions: Mapping[Subject, Definition]) -> None:
    """Adds the subcommand of these definitions, by the fakes that know it."""
    widest = registry.widest(definitions)
    positions = [argument for argument in widest.arguments if not argument.option]
    settings = {"ignore_unknown_options": any(argument.kind in _TIMES for argument in positions)}
    app.command(name, help=widest.help, context_settings=settings)(_function(widest, definitions))


def _function(widest: Definition, definitions: Mapping[Subject, Definition]) -> Callable[..., None]:
    """A function with the parameters that typer makes arguments and options of."""

    def run(**given: Any) -> None:
        context: typer.Context = given.pop("context")
        try:
            values = _values(widest, given)
            checked = widest.command(**values)  # before anybody is asked
            with driver_of(context) as driver:
                definition = definitions[driver.subject]
                for name in values.keys() - {argument.name for argument in definition.arguments}:
                    raise ValueError(f"{driver.words}: `{definition.ctl}` has no option --{name}")
                command = checked if definition is widest else definition.command(**values)
                show_outcome(driver, command, driver.do(command))
        except ValueError as error:
            raise CommandError(str(error)) from None

    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context), *_parameters(widest)]
    run.__dict__["__signature__"] = Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters(definition: Definition) -> list[Parameter]:
    joined = definition.joined
    own = [argument for argument in definition.arguments if not joined or argument.kind is Kind.DEVICES]
    parameters = [_parameter(argument) for argument in own]
    if joined:
        word = Annotated[str, typer.Argument(metavar=joined.metavar, help=joined.help)]
        parameters.append(Parameter("joined", Parameter.KEYWORD_ONLY, annotation=word))
    return parameters


def _parameter(argument: Argument) -> Parameter:
    kinds = {Kind.FLAG: bool, Kind.DEVICES: list[str], Kind.TEXTS: list[str]}
    kind: Any = kinds.get(argument.kind, str)
    if not argument.required and kind is not bool:
        kind = kind | None
    default: Any = Parameter.empty if argument.required else False if kind is bool else None
    metavar = argument.metavar or argument.name.upper()
    words = _completion_of(argument)
    if argument.option:
        shown = None if kind is bool else metavar
        info: Any = typer.Option(argument.option, metavar=shown, help=argument.help, autocompletion=words)
    else:
        info = typer.Argument(metavar=metavar, help=argument.help, autocompletion=words)
    return Parameter(argument.name, Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info], default=default)


def _completion_of(argument: Argument) -> Callable[[], Iterable[str]] | None:
    """The function that gives the values of an argument to shell completion, if they are known."""
    return (lambda: argument.choices) if argument.choices else _VALUES.get(argument.name)


def _values(definition: Definition, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were given, by name. Raises ValueError."""
    values = dict[str, Any]()
    for name, text in given.items():
        if name == "joined" and definition.joined:
            values |= definition.joined.parse(text)
        elif (argument := definition.argument(name)) and text not in (None, False, []):
            values[name] = _value(argument, text)
    return values


def _value(argument: Argument, given: Any) -> Any:
    if isinstance(given, list):
        return given[0] if argument.kind is Kind.DEVICES and len(given) == 1 else tuple(given)
    if given is True:
        return True
    try:
        return parse(argument, given)
    except ValueError as error:
        raise ValueError(f"{argument.option or argument.metavar or argument.name}: {error}") from None
