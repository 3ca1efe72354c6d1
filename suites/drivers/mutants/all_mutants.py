"""All mutants: importing this module fills the table."""

from drahealth.suites.drivers.device_plugins import mutants as device_plugins
from drahealth.suites.drivers.mutants import claims, faults, lifetime, streams
from drahealth.suites.drivers.mutants.table import MUTANTS

__all__ = ["MUTANTS", "claims", "device_plugins", "faults", "lifetime", "streams"]
