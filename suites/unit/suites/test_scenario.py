"""The `scenario` decorator, and the list of scenarios."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drahealth.proto.health_apis import NODE_HEALTH, NODE_HEALTH_DRAFT, V1, HealthApi
from drahealth.suites.kep import test_basic, test_timeouts
from drahealth.suites.run.scenario import Scenario, scenario, scenario_of, scenarios
from drahealth.suites.targets.capabilities import Capability


class Player:
    """The part of a node that the decorator uses."""

    def __init__(self) -> None:
        self.stories: list[Callable[[], Awaitable[None]]] = []

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        self.stories.append(story)


def declared(told: list[Any]) -> Callable[..., None]:
    """A scenario that records the arguments of its story."""

    @scenario("STATUS-02", "STATUS-01")
    async def test_a_story_is_told(node: Any, other: int) -> None:
        told.extend((node, other))

    return test_a_story_is_told


def test_a_scenario_has_a_name_its_requirements_and_a_title() -> None:
    assert scenario_of(declared([])) == Scenario("test_a_story_is_told", ("STATUS-02", "STATUS-01"), "a story is told")


@pytest.mark.parametrize("old", ["alone", "not_on"])
def test_an_old_argument_is_rejected_with_the_new_one(old: str) -> None:
    with pytest.raises(TypeError, match=f"'{old}'; use needs="):
        scenario("STATUS-01", **{old: True})  # type: ignore[arg-type]


async def test_the_node_plays_the_story_with_all_fixtures() -> None:
    told: list[Any] = []
    player = Player()
    declared(told)(node=player, other=7)
    assert told == []
    await player.stories[0]()
    assert told == [player, 7]


def test_pytest_sees_an_ordinary_function_with_the_storys_fixtures() -> None:
    test = declared([])
    assert not inspect.iscoroutinefunction(test)
    assert list(inspect.signature(test).parameters) == ["node", "other"]


def test_an_unknown_requirement_is_rejected() -> None:
    with pytest.raises(
        ValueError, match=r"^requirement 'STATUS-99' is not in the ledger, suites/judging/requirements\.toml$"
    ):
        scenario("STATUS-01", "STATUS-99")


@pytest.mark.parametrize("test", [None, len, Player.play, type("Odd", (), {"scenario": "no"})()])
def test_an_ordinary_function_is_no_scenario(test: object) -> None:
    assert scenario_of(test) is None


AWAY = {Capability.STOP_API_SERVER: "it cannot be reached"}


def test_a_requirement_that_needs_a_missing_capability_is_not_applicable() -> None:
    judging = Scenario("name", ("STATUS-01", "AWAY-01"), "title")
    assert (judging.beyond(None), judging.why_not(None)) == ((), "")
    assert judging.beyond(None, AWAY) == ("AWAY-01",)
    assert judging.why_not(None, AWAY) == "AWAY-01 needs stop-api-server: it cannot be reached"


def test_a_scenario_that_needs_a_missing_capability_is_not_applicable() -> None:
    judging = Scenario("name", ("STATUS-01", "STATUS-02"), "title", needs=(Capability.STOP_API_SERVER,))
    assert (judging.beyond(None), judging.why_not(None)) == ((), "")
    assert judging.beyond(None, AWAY) == ("STATUS-01", "STATUS-02")
    assert judging.why_not(None, AWAY) == "it needs stop-api-server: it cannot be reached"


def test_the_needs_of_a_scenario_include_those_of_its_requirements() -> None:
    judging = Scenario("name", ("STATUS-01", "GATE-01"), "title", needs=(Capability.RESTART_KUBELET,))
    assert judging.all_needs == {Capability.RESTART_KUBELET, Capability.SWITCH_GATES}


def test_an_unknown_capability_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"^unknown capability 'fly'; choose one of stop-api-server, "):
        scenario("STATUS-01", needs=("fly",))


def test_the_catalogue_has_the_order_of_files_and_lines() -> None:
    names = [found.name for found in scenarios()]
    for module in (test_basic, test_timeouts):
        inside = [found.name for test in vars(module).values() if (found := scenario_of(test))]
        assert names[names.index(inside[0]) :][: len(inside)] == inside


def test_names_in_the_catalogue_are_unique_and_none_is_part_of_another() -> None:
    names = [found.name for found in scenarios()]
    assert [(a, b) for a in names for b in names if a in b] == [(name, name) for name in names]


@pytest.mark.parametrize(
    ("health_api", "beyond", "reason"),
    [
        (None, (), ""),
        (V1, (), ""),
        (
            NODE_HEALTH,
            ("STATUS-02",),
            "STATUS-02 needs message, which v1alpha1.NodeHealth/WatchResources does not have",
        ),
        (
            NODE_HEALTH_DRAFT,
            ("TIMEOUT-01", "STATUS-02"),
            (
                "TIMEOUT-01 needs timeout, STATUS-02 needs message, "
                "which v1alpha1.NodeHealth/WatchDevicesStatus does not have"
            ),
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_scenario_is_not_applicable_if_the_health_api_lacks_a_field(
    health_api: HealthApi | None, beyond: tuple[str, ...], reason: str
) -> None:
    judging = Scenario("test_a", ("TIMEOUT-01", "STATUS-02", "STATUS-01"), "a")
    assert (judging.beyond(health_api), judging.why_not(health_api)) == (beyond, reason)
