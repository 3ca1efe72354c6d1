"""All checks: pure functions from evidence to findings. Importing this module registers them."""

from drahealth.suites.driver_checks import (
    claims_checks,
    fault_space_checks,
    faults_checks,
    health_checks,
    pods_checks,
    registration_checks,
    rolling_update_checks,
    slices_checks,
    subscriber_checks,
    taint_checks,
    timing_checks,
)
from drahealth.suites.driver_checks.check import CHECKS, Check
from drahealth.suites.driver_checks.device_plugins import devices_checks
from drahealth.suites.driver_checks.device_plugins import faults_checks as plugin_faults_checks
from drahealth.suites.driver_checks.device_plugins import pods_checks as plugin_pods_checks
from drahealth.suites.driver_checks.device_plugins import registration_checks as plugin_registration_checks

__all__ = [
    "CHECKS",
    "Check",
    "claims_checks",
    "devices_checks",
    "fault_space_checks",
    "faults_checks",
    "health_checks",
    "plugin_faults_checks",
    "plugin_pods_checks",
    "plugin_registration_checks",
    "pods_checks",
    "registration_checks",
    "rolling_update_checks",
    "slices_checks",
    "subscriber_checks",
    "taint_checks",
    "timing_checks",
]
