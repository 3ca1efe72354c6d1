"""The `node` fixture: a node on the run's target, for one scenario."""

from collections.abc import Iterator

import pytest

from drahealth.suites.run.session import Session
from drahealth.suites.story.node import Node


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """A node on the target of this run. The scenario has its own namespace and history."""
    session = Session.of(request.config)
    node = session.begin(request.node)
    try:
        yield node
    finally:
        session.finish(node)
