"""The subcommands of `drahealth ctl` that are commands of a fake: made from their definitions."""

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from drahealth.fakes.control.definition import Argument, Command, Definition, Kind, Subject, parse, widest
from drahealth.fakes.ctl.connection import Driver, driver_of
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import as_called
from drahealth.proto.quoting import printable


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


def subcommand(name: str, definitions: Mapping[Subject, Definition]) -> Any:
    """The subcommand of these definitions, by the fakes that know it."""
    chosen = widest(definitions)
    positions = [argument for argument in chosen.arguments if not argument.option]
    settings = {"ignore_unknown_options": any(argument.kind in _TIMES for argument in positions)}
    app = typer.Typer(add_completion=False)
    app.command(name, help=chosen.help, context_settings=settings)(_function(chosen, definitions))
    return get_command(app)


def _function(widest: Definition, definitions: Mapping[Subject, Definition]) -> Callable[..., None]:
    """A function with the parameters that typer makes arguments and options of."""

    def run(**given: Any) -> None:
        context: typer.Context = given.pop("context")
        try:
            values = _values(widest, given)
            selection = _selection(context, widest)
            if widest.has_devices and selection:
                values["device"] = values.get("device") or "all"
            elif (needed := widest.argument("device")) and needed.required and "device" not in values:
                raise ValueError("missing DEVICE; pass a device, a pattern, all, or --percent")
            checked = widest.command(**values)  # before anybody is asked
            with driver_of(context) as driver:
                definition = definitions[driver.subject]
                if selection:
                    values["device"] = driver.select(values["device"], selection)
                    checked = widest.command(**values)
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


def _selection(context: typer.Context, definition: Definition) -> Mapping[str, str | float]:
    """The options of `ctl` that select devices. Raises ValueError for a subcommand without devices."""
    selection: Mapping[str, str | float] = context.obj.selection
    if selection and not definition.has_devices:
        raise ValueError(f"`{definition.ctl}` is not for single devices; remove --{next(iter(selection))}")
    return selection


def _parameters(definition: Definition) -> list[Parameter]:
    joined = definition.joined
    own = [argument for argument in definition.arguments if not joined or argument.kind is Kind.DEVICES]
    parameters = [_parameter(argument, may_be_selected=joined is None) for argument in own]
    if joined:
        word = Annotated[str, typer.Argument(metavar=joined.metavar, help=joined.help)]
        parameters.append(Parameter("joined", Parameter.KEYWORD_ONLY, annotation=word))
    return parameters


def _parameter(argument: Argument, *, may_be_selected: bool) -> Parameter:
    """`may_be_selected`: options of `ctl` can take the place of devices."""
    kinds = {Kind.FLAG: bool, Kind.DEVICES: list[str], Kind.TEXTS: list[str]}
    kind: Any = kinds.get(argument.kind, str)
    required = argument.required and not (may_be_selected and argument.kind is Kind.DEVICES)
    if not required and kind is not bool:
        kind = kind | None
    default: Any = Parameter.empty if required else False if kind is bool else None
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


# What is printed of a command that is done, and the exit code, for commands that reply something.

if TYPE_CHECKING:
    from drahealth.fakes.control.commands import Clear, Inject, Recover, UntaintDevices, Upgrade


def show_outcome(driver: Driver, command: Command[Any], reply: Any) -> None:
    """Prints it. Raises CommandError or Exit for an exit code of its own."""
    if show := _SHOWN.get(command.verb):
        show(driver, command, reply)


def _injected(driver: Driver, command: "Inject", reply: Any) -> None:
    if reply:
        stay = "stays" if len(reply) == 1 else "stay"
        reason = as_called(f"`drahealth faults show {command.fault}` gives the health by policy")
        typer.echo(f"{printable(_words(reply))} {stay} Healthy; {reason}")


def _untainted(driver: Driver, command: "UntaintDevices", reply: Any) -> None:
    if not reply:
        taint = f"{command.key}:{command.effect}" if command.effect else command.key
        raise CommandError(f"{_words(command.device)} did not have the taint {taint}", 1)


def _cleared(driver: Driver, command: "Clear", reply: Any) -> None:
    if not reply:
        raise CommandError(f"{_words(command.device)} did not have {command.fault}", 1)


def _recovered(driver: Driver, command: "Recover", reply: Any) -> None:
    after = f" in {reply['takes']:g} s" if reply["takes"] else ""
    left = "claimed to be cleared" if command.claimed else "left"
    for word, faults in (("cleared", reply["cleared"]), (left, reply["left"])):
        for fault in faults:
            typer.echo(f"{word}{after}: {printable(fault)}")
    if not (reply["cleared"] or reply["left"]):
        typer.echo(f"there is nothing to recover{f' on {_words(command.device)}' if command.device else ''}")
    if reply["left"] and not (command.fails or command.claimed):
        raise typer.Exit(1)


def _upgraded(driver: Driver, command: "Upgrade", reply: Any) -> None:
    from drahealth.fakes.control.without_subcommand import GetState  # only here: `ctl` starts without it

    typer.echo(f"upgraded to instance {printable(driver.do(GetState())['instance'])}")


_SHOWN: dict[str, Callable[[Driver, Any, Any], None]] = {
    "inject": _injected,
    "clear": _cleared,
    "recover": _recovered,
    "untaint": _untainted,
    "upgrade": _upgraded,
}
"""By the name of the command, so that `ctl` imports only the definition that it uses."""


def _words(devices: Any) -> str:
    return devices if isinstance(devices, str) else ", ".join(devices)
