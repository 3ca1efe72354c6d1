"""Passes the events of the program to all its observers."""

from drahealth.proto.events import Event, Observe


class Observers:
    """An observer that passes each event to all added observers."""

    def __init__(self) -> None:
        self._all: list[Observe] = []

    def add(self, observe: Observe) -> None:
        """Adds an observer."""
        self._all.append(observe)

    def __call__(self, event: Event, /) -> None:
        for observe in self._all:
            observe(event)
