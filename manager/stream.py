"""The life of one health stream, as a table. Pure: `plugin` does what it says.

Rules, from the design document 3.3/3.4 and the facts W-21 to W-27:
- A stream is opened when the plugin is registered and has a health API that the profile speaks.
- Not reaching the plugin touches nothing: what is known stays, and a new attempt follows.
- Any end of an open stream clears what its driver reported. A new attempt follows, `retry` seconds after the end.
- A health API may have several methods (NodeHealth has two: that of the newest KEP and that of its first draft). Where
  one is Unimplemented the next is called at once, and nothing is forgotten for it. No other health API is tried (B-14).
- Unimplemented, when no method is left, means the plugin has no health to report: what is known is cleared, and where
  the profile says so nothing more is tried until the plugin registers again.
- A stream that ends is opened again by the method that it had.
- Being replaced by a newer instance ends the stream and clears nothing: the newer one reports.
"""

from enum import Enum, auto

from drahealth.manager.profile import Profile


class State(Enum):
    OFF = auto()
    CONNECTING = auto()
    OPEN = auto()
    WAITING = auto()
    UNSUPPORTED = auto()


class Input(Enum):
    WATCH = auto()
    """The plugin was registered, or became the one to watch."""
    CONNECTED = auto()
    UNREACHABLE = auto()
    ENDED = auto()
    """The open stream ended, in whatever way."""
    NO_SUCH_METHOD = auto()
    """The method called is not implemented, and there is another."""
    UNIMPLEMENTED = auto()
    """Neither is the last one."""
    RETRY_DUE = auto()
    REPLACED = auto()
    """A newer instance is watched instead."""
    GONE = auto()
    """The plugin was deregistered, or the manager stops."""


class Action(Enum):
    CONNECT = auto()
    CALL = auto()
    """Call the streaming method and read reports."""
    FIRST_METHOD = auto()
    """It is the health API's first that will be called."""
    NEXT_METHOD = auto()
    WAIT = auto()
    CLEAR = auto()
    HANG_UP = auto()


_TABLE: dict[tuple[State, Input], tuple[State, tuple[Action, ...]]] = {
    (State.OFF, Input.WATCH): (State.CONNECTING, (Action.FIRST_METHOD, Action.CONNECT)),
    (State.CONNECTING, Input.CONNECTED): (State.OPEN, (Action.CALL,)),
    (State.CONNECTING, Input.UNREACHABLE): (State.WAITING, (Action.WAIT,)),
    (State.OPEN, Input.ENDED): (State.WAITING, (Action.CLEAR, Action.WAIT)),
    (State.OPEN, Input.NO_SUCH_METHOD): (State.OPEN, (Action.NEXT_METHOD, Action.CALL)),
    (State.OPEN, Input.UNIMPLEMENTED): (State.UNSUPPORTED, (Action.CLEAR,)),
    (State.WAITING, Input.RETRY_DUE): (State.CONNECTING, (Action.CONNECT,)),
    **{(state, Input.REPLACED): (State.OFF, (Action.HANG_UP,)) for state in State},
    **{(state, Input.GONE): (State.OFF, (Action.HANG_UP,)) for state in State},
    (State.OPEN, Input.GONE): (State.OFF, (Action.HANG_UP, Action.CLEAR)),
}


def step(state: State, what: Input, profile: Profile) -> tuple[State, tuple[Action, ...]]:
    """The next state and what to do now. Raises ValueError for an input that cannot happen in this state."""
    if what is Input.UNIMPLEMENTED and not profile.unimplemented_ends_watch:
        what = Input.ENDED
    try:
        return _TABLE[state, what]
    except KeyError:
        raise ValueError(f"a health stream that is {state.name} cannot be told {what.name}") from None
