"""pytest from the root of the checkout: what our own tests need beside the plugin that is installed."""

pytest_plugins = ["pytester"]
