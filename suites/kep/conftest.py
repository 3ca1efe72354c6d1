"""The one fixture of the scenarios."""

from drahealth.suites.run.fixtures import node

__all__ = ["node"]
