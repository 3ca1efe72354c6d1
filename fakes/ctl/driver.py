"""The driver or device plugin that a subcommand of `drahealth ctl` is for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from drahealth.fakes.control.commands.definition import Command, Kind, Subject
from drahealth.fakes.control.commands.registry import defined, with_subcommand
from drahealth.fakes.ctl.connection import Connection
from drahealth.fakes.program.errors import CommandError


class Driver:
    """The driver or device plugin at the other end of a connection."""

    def __init__(self, connection: Connection, described: dict[str, Any]) -> None:
        self.connection = connection
        self.described = described
        self.name: str = described["name"]
        self.subject: Subject = described.get("kind", "driver")

    @property
    def is_plugin(self) -> bool:
        return self.subject == "device-plugin"

    @property
    def words(self) -> str:
        """What it is and its name, such as `driver gpu.example.com`."""
        return f"{self.subject.replace('-', ' ')} {self.name}"

    def do(self, command: Command[Any]) -> Any:
        """Does the command; returns its reply as plain data. Raises CommandError."""
        timed = [argument.name for argument in command.definition.arguments if argument.kind is Kind.DURATION]
        self.connection.extend_timeout(sum(getattr(command, name) for name in timed))
        return self.connection.call(command.verb, self.described["driver"], **command.stated())


@contextmanager
def driver_of(context: typer.Context) -> Iterator[Driver]:
    """The one that the options name, for as long as it is entered. Raises CommandError, also where that is a device
    plugin without this subcommand."""
    path, name = context.obj
    subcommand = context.command_path.partition(" ctl ")[2]  # such as `inject`, or `stream drop`
    with Connection(path) as connection:
        driver = Driver(connection, connection.call("use", name=name))
        if subcommand != "set" and driver.subject not in with_subcommand(subcommand):
            has = [*(known.ctl for known in defined(driver.subject) if known.ctl), "set"]
            raise CommandError(f"{driver.words} has no `{subcommand}`; it has {', '.join(has)}")
        yield driver
