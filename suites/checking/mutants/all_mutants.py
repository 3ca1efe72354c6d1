"""All mutants: importing this module fills the table."""

from drahealth.suites.checking.mutants import claims, faults, fields, lifetime, pods, registering, streams
from drahealth.suites.checking.mutants.table import MUTANTS

__all__ = ["MUTANTS", "claims", "faults", "fields", "lifetime", "pods", "registering", "streams"]
