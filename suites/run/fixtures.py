"""The `node` fixture: a place for a scenario's story on the run's target."""

from collections.abc import Iterator

import pytest

from drahealth.suites.run.session import Session
from drahealth.suites.story.node import Node


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """A node on the target of this run, with a namespace and a history of the scenario's own."""
    session = Session.of(request.config)
    node = session.begin(request.node)
    try:
        yield node
    finally:
        session.finish(node)
