"""The one fixture of the scenarios."""

from drahealth.suites.fixtures import node

__all__ = ["node"]
