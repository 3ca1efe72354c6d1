"""pytest from the root of the checkout: what our own tests need beside the plugin that is installed."""

import gc

pytest_plugins = ["pytester"]


def pytest_collection_finish() -> None:
    """Leaves modules and tests out of garbage collections: they live to the end, and there are many of them."""
    gc.freeze()
