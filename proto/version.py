"""The installed version of drahealth. The import takes 15 ms, so commands import it only where they need it."""

from importlib.metadata import version

__version__ = version("drahealth")
"""The version of the installed distribution, such as 0.1.0."""
