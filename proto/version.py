"""The installed version of drahealth."""

from importlib.metadata import version

__version__ = version("drahealth")
"""The version of the installed distribution, such as 0.1.0."""
