"""The driver that a subcommand of `drahealth ctl` tells something."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from drahealth.fakes.ctl.connection import Connection


class Driver:
    """The driver that is meant, at the end of a connection."""

    def __init__(self, connection: Connection, described: dict[str, Any]) -> None:
        self.connection = connection
        self.described = described
        self.name: str = described["name"]

    def call(self, name: str, /, **args: Any) -> Any:
        """What a call of it comes to."""
        return self.connection.call(name, self.described["driver"], **args)


@contextmanager
def driver_of(context: typer.Context) -> Iterator[Driver]:
    """The one that the command's options name, for as long as it is entered. Raises Complaint."""
    path, name = context.obj
    with Connection(path) as connection:
        yield Driver(connection, connection.call("use", name=name))


def tell(context: typer.Context, call: str, /, **args: Any) -> None:
    """One call, of which nothing is to be shown. Raises Complaint."""
    with driver_of(context) as driver:
        driver.call(call, **args)
