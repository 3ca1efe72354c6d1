"""State table of a health stream, input by input."""

from dataclasses import replace
from itertools import product

import pytest

from drahealth.manager.profile import KEP
from drahealth.manager.stream import Action, Input, State, step

# What each state becomes; "-" is an input that cannot happen in it.
TABLE = """
             WATCH       CONNECTED  UNREACHABLE  ENDED    NO_SUCH_METHOD  UNIMPLEMENTED  RETRY_DUE   REPLACED  GONE
OFF          CONNECTING  -          -            -        -               -              -           OFF       OFF
CONNECTING   -           OPEN       WAITING      -        -               -              -           OFF       OFF
OPEN         -           -          -            WAITING  OPEN            UNSUPPORTED    -           OFF       OFF
WAITING      -           -          -            -        -               -              CONNECTING  OFF       OFF
UNSUPPORTED  -           -          -            -        -               -              -           OFF       OFF
"""
HEAD, *ROWS = (line.split() for line in TABLE.strip().splitlines())
CELLS = {(State[row[0]], Input[name]): cell for row in ROWS for name, cell in zip(HEAD, row[1:], strict=True)}
ILLEGAL = [key for key, cell in CELLS.items() if cell == "-"]
LEGAL = {key: State[cell] for key, cell in CELLS.items() if cell != "-"}
DOING = {
    State.CONNECTING: Action.CONNECT,
    State.OPEN: Action.CALL,
    State.WAITING: Action.WAIT,
    State.OFF: Action.HANG_UP,
    State.UNSUPPORTED: None,
}
CHOOSING = {(State.OFF, Input.WATCH): Action.FIRST_METHOD, (State.OPEN, Input.NO_SUCH_METHOD): Action.NEXT_METHOD}
"""Where it is said which method the next call is of; else it is that of the last one."""


def test_expected_table_covers_all_states_and_inputs() -> None:
    assert CELLS.keys() == set(product(State, Input))


@pytest.mark.parametrize(("state", "what"), LEGAL, ids=lambda value: value.name)
def test_valid_input_gives_the_expected_state_and_actions(state: State, what: Input) -> None:
    after, actions = step(state, what, KEP)
    assert after is LEGAL[state, what]
    wanted = [CHOOSING.get((state, what)), DOING[after]]
    assert [action for action in actions if action is not Action.CLEAR] == [action for action in wanted if action]


@pytest.mark.parametrize(("state", "what"), ILLEGAL, ids=lambda value: value.name)
def test_invalid_input_for_a_state_is_rejected(state: State, what: Input) -> None:
    with pytest.raises(ValueError, match=f"invalid input {what.name} for a health stream in state {state.name}"):
        step(state, what, KEP)


def test_end_of_an_open_stream_clears_health_except_after_replacement() -> None:
    clearing = {key for key in LEGAL if Action.CLEAR in step(*key, KEP)[1]}
    assert clearing == {(State.OPEN, what) for what in (Input.ENDED, Input.UNIMPLEMENTED, Input.GONE)}


def test_a_profile_may_try_again_after_unimplemented() -> None:
    tireless = replace(KEP, unimplemented_ends_watch=False)
    assert step(State.OPEN, Input.UNIMPLEMENTED, tireless) == (State.WAITING, (Action.CLEAR, Action.WAIT))


def test_every_state_is_reachable_and_deregistration_returns_to_off() -> None:
    reached = {State.OFF}
    for _ in State:
        reached |= {after for (state, _), after in LEGAL.items() if state in reached}
    assert reached == set(State)
    assert {step(state, Input.GONE, KEP)[0] for state in State} == {State.OFF}
