"""The state table of one health stream. Pure: `plugin` runs the actions.

Rules, from the design document 3.3/3.4 and the facts W-21 to W-27:
- A stream is opened when the plugin is registered and has methods to call (`pick_health_api`).
- If the plugin is unreachable, no health is cleared, and a new attempt follows.
- The end of an open stream clears the health of its driver. A new attempt follows after `retry` seconds.
- There can be several methods: NodeHealth has that of the newest KEP and that of its first draft, and a plugin that
  advertises no health API can have any. After Unimplemented the next method is called immediately, without clearing.
- Unimplemented for the last method means that the plugin has no health to report: the health is cleared. If the
  profile says so, no attempt follows until the plugin registers again.
- After the end of a stream, the same method is called again.
- A newer instance ends the stream without clearing, because the newer instance reports.
"""

from collections.abc import Iterable
from enum import Enum, auto

from drahealth.manager.profile import Profile
from drahealth.proto.health_apis import HealthApi, of_service


def advertised_health_api(versions: Iterable[str], profile: Profile) -> tuple[HealthApi, ...]:
    """The methods of the first health API of the profile that the plugin advertises (W-18). Empty if there is none."""
    advertised = set(versions)
    return next((of_service(api) for api in profile.health_apis if api in advertised), ())


def pick_health_api(versions: Iterable[str], profile: Profile) -> tuple[HealthApi, ...]:
    """The methods to call, each after Unimplemented of the one before.

    These are the methods of the advertised health API. If the plugin advertises none, they are the methods of all
    supported health APIs, or none, as the profile says (READ-12, B-11).
    """
    unadvertised = profile.called_apis if profile.asks_unadvertised else ()
    return advertised_health_api(versions, profile) or unadvertised


class State(Enum):
    OFF = auto()
    CONNECTING = auto()
    OPEN = auto()
    WAITING = auto()
    UNSUPPORTED = auto()


class Input(Enum):
    WATCH = auto()
    """The plugin was registered, or must now be watched."""
    CONNECTED = auto()
    UNREACHABLE = auto()
    ENDED = auto()
    """The open stream ended, with any status."""
    NO_SUCH_METHOD = auto()
    """The called method is Unimplemented, and there is another one."""
    UNIMPLEMENTED = auto()
    """The last method is Unimplemented, too."""
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
    """The first method of the health API is called."""
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
    """The next state and the action to take. Raises ValueError for an input that is impossible in this state."""
    if what is Input.UNIMPLEMENTED and not profile.unimplemented_ends_watch:
        what = Input.ENDED
    try:
        return _TABLE[state, what]
    except KeyError:
        raise ValueError(f"invalid input {what.name} for a health stream in state {state.name}") from None
