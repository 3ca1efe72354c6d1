"""pytest from the root of the checkout: what our own tests need beside the plugin that is installed."""

import gc

import pytest

pytest_plugins = ["pytester"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts tests that wait for a long time at the start of each worker's part, so that none runs alone at the end."""
    workers = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    long = [one for one in items if one.get_closest_marker("long")]
    others = [one for one in items if not one.get_closest_marker("long")]
    part = -(-len(others) // workers)
    items[:] = [one for n in range(workers) for one in (*long[n::workers], *others[n * part : (n + 1) * part])]


def pytest_collection_finish() -> None:
    """Leaves modules and tests out of garbage collections: they live to the end, and there are many of them."""
    gc.freeze()
