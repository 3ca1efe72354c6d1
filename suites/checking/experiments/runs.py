"""The experiments by name. Each waits for what it needs of the others; all of a process can start at once."""

from collections.abc import Callable, Coroutine
from typing import Any

from drahealth.suites.checking.experiments.registration import refused_registration, registration, reregistration
from drahealth.suites.checking.experiments.services import services
from drahealth.suites.checking.experiments.watching import subscribers, watch
from drahealth.suites.checking.lab import Lab

RUNS: dict[str, Callable[[Lab], Coroutine[Any, Any, None]]] = {
    "registration": registration,
    "services": services,
    "watch": watch,
    "subscribers": subscribers,
    "reregistration": reregistration,
    "refused-registration": refused_registration,
}
"""The function of each experiment of `plan.EXPERIMENTS`. It raises NotApplicable and Incomplete."""
