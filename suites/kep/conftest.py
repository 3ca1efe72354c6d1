"""The fixture of all scenarios."""

from drahealth.suites.run.fixtures import node

__all__ = ["node"]
