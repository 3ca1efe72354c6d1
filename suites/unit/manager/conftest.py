"""Nodes for the tests of the manager's edges."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from drahealth.manager import registration
from drahealth.manager.profile import KEP, Gates, Profile
from drahealth.manager.releases import NEWEST
from drahealth.suites.unit.endings import PATIENCE, running_since
from drahealth.suites.unit.manager.rig import Node, settle

MakeNode = Callable[..., Node]


@pytest.fixture
async def make_node(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeNode]:
    """Makes nodes, not started; afterwards nothing of them may be left running."""
    # A busy machine needs more than the second of a kubelet, and the next attempt waits for the clock of the test.
    monkeypatch.setattr(registration, "INFO_LIMIT", PATIENCE)
    before = asyncio.all_tasks()
    nodes: list[Node] = []

    def make(profile: Profile = KEP, gates: Gates | None = None) -> Node:
        nodes.append(Node(profile, gates))
        return nodes[-1]

    yield make
    for node in nodes:
        await node.close()
    await settle()
    assert await running_since(before) == set()


@pytest.fixture
async def node(make_node: MakeNode) -> Node:
    """A started node that does as the KEP says."""
    node = make_node()
    await node.start()
    return node


@pytest.fixture
async def node_1_37(make_node: MakeNode) -> Node:
    """A started node that does as kubelet 1.37."""
    node = make_node(NEWEST)
    await node.start()
    return node


@pytest.fixture(params=[KEP, NEWEST], ids=["kep", "v1.37"])
async def any_node(make_node: MakeNode, request: pytest.FixtureRequest) -> Node:
    """A started node that does as the KEP says, and one that does as kubelet 1.37."""
    node = make_node(request.param)
    await node.start()
    return node
