"""Where the events of the program go: one observer for the manager and the rest of it, which passes them on."""

from drahealth.proto.events import Event, Observe


class Observers:
    """An observer that passes each event on to all that were added."""

    def __init__(self) -> None:
        self._all: list[Observe] = []

    def add(self, observe: Observe) -> None:
        """It gets the events from now on."""
        self._all.append(observe)

    def __call__(self, event: Event, /) -> None:
        for observe in self._all:
            observe(event)
