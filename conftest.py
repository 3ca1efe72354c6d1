"""pytest from the root of the checkout: what our own tests need beside the plugin that is installed."""

import gc
from collections.abc import Iterator

import pytest

pytest_plugins = ["pytester"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts tests that wait for a long time at the start of each worker's part, so that none runs alone at the end."""
    workers = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    long = [one for one in items if one.get_closest_marker("long")]
    others = [one for one in items if not one.get_closest_marker("long")]
    part = -(-len(others) // workers)
    items[:] = [one for n in range(workers) for one in (*long[n::workers], *others[n * part : (n + 1) * part])]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects no garbage before the tests, and later none of their modules, which live to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
