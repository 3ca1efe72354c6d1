"""All mutants: importing this module fills the table."""

from drahealth.suites.checking.device_plugins.mutants import allocating, breaking, listing, living, several
from drahealth.suites.checking.device_plugins.mutants import pods as plugin_pods
from drahealth.suites.checking.device_plugins.mutants import registering as plugin_registering
from drahealth.suites.checking.mutants import (
    claims,
    faults,
    fields,
    lifetime,
    pods,
    registering,
    rolling_update,
    streams,
)
from drahealth.suites.checking.mutants.table import MUTANTS

__all__ = [
    "MUTANTS",
    "allocating",
    "breaking",
    "claims",
    "faults",
    "fields",
    "lifetime",
    "listing",
    "living",
    "plugin_pods",
    "plugin_registering",
    "pods",
    "registering",
    "rolling_update",
    "several",
    "streams",
]
