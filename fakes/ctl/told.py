"""The driver that a subcommand of `drahealth ctl` tells something."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from drahealth.fakes.ctl.connection import Connection
from drahealth.fakes.program.errors import CommandError

PLUGIN_VERBS = ("inject", "clear", "recover", "set", "stop", "start", "restart", "crash")
"""What device plugins know, beside `status` and `watch`."""


class Driver:
    """The driver or device plugin that is meant, at the end of a connection."""

    def __init__(self, connection: Connection, described: dict[str, Any]) -> None:
        self.connection = connection
        self.described = described
        self.name: str = described["name"]
        self.is_plugin = described.get("kind") == "device-plugin"

    def call(self, name: str, /, **args: Any) -> Any:
        """What a call of it comes to."""
        return self.connection.call(name, self.described["driver"], **args)


@contextmanager
def driver_of(context: typer.Context) -> Iterator[Driver]:
    """The one that the command's options name, for as long as it is entered. Raises CommandError, also where that is a
    device plugin and does not know the verb."""
    path, name = context.obj
    with Connection(path) as connection:
        driver, verb = Driver(connection, connection.call("use", name=name)), _verb(context)
        if driver.is_plugin and verb not in PLUGIN_VERBS:
            raise CommandError(
                f"{driver.name} is a device plugin, which knows no `{verb}`; it has {', '.join(PLUGIN_VERBS)}"
            )
        yield driver


def _verb(context: typer.Context) -> str:
    """Such as `inject`, or `stream drop`."""
    return context.command_path.partition(" ctl ")[2]


def tell(context: typer.Context, call: str, /, **args: Any) -> None:
    """One call, of which nothing is to be shown. Raises CommandError."""
    with driver_of(context) as driver:
        driver.call(call, **args)
