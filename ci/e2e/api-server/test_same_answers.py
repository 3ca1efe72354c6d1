"""The API server in memory answers as kube-apiserver does (`ci/step api-server` runs this).

The same requests go to both. Each difference is accepted in `ci/e2e/api_answers/accepted.toml`, or an error.
"""

import asyncio
import tempfile
from pathlib import Path

from api_answers.comparison import (
    Answer,
    Difference,
    Normal,
    Scenario,
    accepted,
    differences,
    play_all,
    player,
    unexplained,
    unused,
)
from api_answers.kinds import matrix
from api_answers.scenarios import SCENARIOS
from drahealth.manager.releases import DEFAULT_VERSION, for_release
from drahealth.suites.targets.api_servers import MemoryApiServer, api_server, field_rules

ALL = (*matrix(), *SCENARIOS)


async def played(path: Path) -> list[list[Answer]]:
    async with player(await asyncio.to_thread(path.read_text)) as found:
        return await play_all(found, ALL)


async def answers_in_memory(folder: Path) -> list[list[Answer]]:
    profile = for_release(DEFAULT_VERSION)
    assert profile is not None
    server = MemoryApiServer(folder, rules=field_rules(profile))
    try:
        return await played(await server.kubeconfig())
    finally:
        await server.stop()


async def answers_of_kubernetes(folder: Path) -> list[list[Answer]]:
    async with api_server("real", folder) as server:
        return await played(await server.kubeconfig())


def compared(scenario: Scenario, memory: list[Answer], real: list[Answer]) -> list[Difference]:
    ours, theirs = Normal(), Normal()
    found = list[Difference]()
    for request, one, other in zip(scenario.requests, memory, real, strict=True):
        found += differences(f"{scenario.name}/{request.label}", ours.answer(one), theirs.answer(other))
    return found


async def test_every_difference_has_a_reason() -> None:
    with tempfile.TemporaryDirectory(prefix="dra-") as here, tempfile.TemporaryDirectory(prefix="dra-") as there:
        memory = await answers_in_memory(Path(here))
        real = await answers_of_kubernetes(Path(there))
    found = [one for both in zip(ALL, memory, real, strict=True) for one in compared(*both)]
    known = accepted()
    assert "\n".join(map(str, unexplained(found, known))) == ""
    assert unused(found, known) == []


def test_there_are_at_least_300_requests() -> None:
    labels = [f"{scenario.name}/{request.label}" for scenario in ALL for request in scenario.requests]
    assert len(labels) == len(set(labels))
    assert len(labels) >= 300
