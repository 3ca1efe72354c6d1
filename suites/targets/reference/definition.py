"""The reference target, as the registry lists it."""

from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.option import API_SERVER, DRIVER, FIXED, HEALTH_API, KUBERNETES, PROFILE, Values
from drahealth.suites.targets.registry import Configuration, TargetDefinition


def _configure(values: Values) -> Configuration:
    from drahealth.suites.targets.reference.target import ReferenceConfiguration

    return ReferenceConfiguration.of(values)


DEFINITION = TargetDefinition(
    name="reference",
    title="the reference",
    summary="The reference and the fakes, in one process with simulated time. This target needs only Python.",
    options=(PROFILE, FIXED, API_SERVER, KUBERNETES, DRIVER, HEALTH_API),
    missing={
        Capability.STATIC_PODS: "the reference runs no static Pods",
        Capability.GRANT_RESIZE: "the containers of the reference have no resource limits",
    },
    configure=_configure,
    plays_every_health_api=True,
    is_busy=True,
)
