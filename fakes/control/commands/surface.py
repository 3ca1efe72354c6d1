"""Who takes commands: `do` takes any of them, and each command is a method with the same arguments."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, overload

from drahealth.fakes.control.commands.definition import Command

P = ParamSpec("P")
Reply = TypeVar("Reply")
C = TypeVar("C", bound=Command[Any])
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


def handles(*commands: type[C]) -> Callable[[Callable[[Any, C], Done]], Callable[[Any, C], Done]]:
    """Marks the method of a `Handlers` that does these commands."""

    def mark(method: Callable[[Any, C], Done]) -> Callable[[Any, C], Done]:
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
