"""The registration calls: GetInfo, NotifyRegistrationStatus, and what the driver advertises."""

from collections.abc import Iterator

from drahealth.proto.events import GrpcCall
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.plain import text, texts

Call = Observation[GrpcCall]
_NOT_SERVED = {"UNIMPLEMENTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", ""}
"""gRPC codes that a served method does not answer to a valid call; "" is a message of another type."""


def get_info(evidence: Evidence, *experiments: str) -> Iterator[Call]:
    """The calls of GetInfo."""
    return _calls(evidence, GET_INFO.path, experiments)


def notified(evidence: Evidence, *experiments: str) -> Iterator[Call]:
    """The calls of NotifyRegistrationStatus."""
    return _calls(evidence, NOTIFY_REGISTRATION.path, experiments)


def descriptions(evidence: Evidence) -> list[Call]:
    """The last GetInfo of the socket that was registered in the main process; without one, that of each socket.

    Other sockets may be of other plugins, and the first attempts may fail.
    """
    last = {one.what.endpoint: one for one in get_info(evidence, "registration")}
    registered = next(notified(evidence, "registration"), None)
    return [one for one in last.values() if registered is None or one.what.endpoint == registered.what.endpoint]


def described(evidence: Evidence) -> Call | None:
    """The successful GetInfo of the driver."""
    return next((one for one in descriptions(evidence) if one.what.code == "OK"), None)


def driver_name(evidence: Evidence) -> str:
    """The name that the driver gave in GetInfo, or ""."""
    found = described(evidence)
    return text(found.what.response, "name") if found else ""


def advertised(evidence: Evidence) -> frozenset[str]:
    """The services that the driver advertises."""
    found = described(evidence)
    return frozenset(texts(found.what.response, "supported_versions")) if found else frozenset()


def is_served(call: GrpcCall) -> bool:
    """Whether the method is served. A NodePrepareResources without claims may have an error: kubelets never call it."""
    return call.code not in _NOT_SERVED


def outcome(call: GrpcCall) -> str:
    """How a call ended, such as `UNAVAILABLE: no connection`."""
    code = call.code or "no message of the method"
    return f"{code}: {call.details}" if call.details else code


def _calls(evidence: Evidence, path: str, experiments: tuple[str, ...]) -> Iterator[Call]:
    return (one for one in evidence.of(GrpcCall, *experiments) if f"/{one.what.method}" == path)
