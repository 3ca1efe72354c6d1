"""pytest from the root of the checkout: what our own tests need beside the plugin that is installed."""

import gc

import pytest

pytest_plugins = ["pytester"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts tests that wait for a long time first, so that no worker waits for them alone at the end."""
    items.sort(key=lambda one: one.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Leaves modules and tests out of garbage collections: they live to the end, and there are many of them."""
    gc.freeze()
