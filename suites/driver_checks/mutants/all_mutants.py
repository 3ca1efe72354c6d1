"""All mutants: importing this module fills the table."""

from drahealth.suites.driver_checks.device_plugins import mutants as device_plugins
from drahealth.suites.driver_checks.mutants import claims, faults, lifetime, streams
from drahealth.suites.driver_checks.mutants.table import MUTANTS

__all__ = ["MUTANTS", "claims", "device_plugins", "faults", "lifetime", "streams"]
