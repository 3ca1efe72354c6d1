"""Minimization of scripts that show a difference."""

from collections.abc import Awaitable, Callable

from hypothesis import given, settings

from differential.generation import generate, scripts
from differential.script import Reading, Report, Script, find_error
from differential.shrinking import shrink, smaller
from drahealth.suites.unit.differential.scripts import script


def says(said: Reading) -> Callable[[Script], bool]:
    return lambda script: any(isinstance(step, Report) and said in step.says for step in script.steps)


def oracle(holds: Callable[[Script], bool]) -> Callable[[Script], Awaitable[bool]]:
    async def differs(script: Script) -> bool:
        return holds(script)

    return differs


@given(scripts())
@settings(max_examples=30, deadline=None)
def test_every_smaller_script_is_valid_and_different(drawn: Script) -> None:
    found = list(smaller(drawn))
    assert drawn not in found
    assert [find_error(candidate) for candidate in found if find_error(candidate)] == []


async def test_irrelevant_parts_are_removed() -> None:
    big = next(
        s for s in generate(3, 60) if len(s.steps) > 4 and any(isinstance(x, Report) and x.says for x in s.steps)
    )
    wanted = next(step for step in big.steps if isinstance(step, Report) and step.says).says[0]
    small = await shrink(big, oracle(says(wanted)), 10_000)
    assert (small.pods, small.claims) == ((), ())
    assert [step.says for step in small.steps if isinstance(step, Report)] == [(wanted,)]
    assert len(small.drivers) == 1


async def test_values_become_default() -> None:
    odd = script(Report(0, (Reading("p", "d", 99, "é" * 1000, 5, 7, 300, identified=False),), pause=6.0))
    small = await shrink(odd, oracle(lambda s: any(isinstance(x, Report) and x.says for x in s.steps)), 10_000)
    assert small.steps == (Report(0, (Reading("p", "d", 2),)),)


async def test_the_number_of_plays_is_limited() -> None:
    asked: list[Script] = []

    async def differs(candidate: Script) -> bool:
        asked.append(candidate)
        return len(asked) % 2 == 0

    await shrink(generate(3, 2)[1], differs, 11)
    assert len(asked) == 11
