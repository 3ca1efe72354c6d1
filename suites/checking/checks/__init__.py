"""The checks: pure functions from evidence to findings. Importing this package registers them all."""

from drahealth.suites.checking.checks import registration
from drahealth.suites.checking.checks.registry import CHECKS, Check

__all__ = ["CHECKS", "Check", "registration"]
