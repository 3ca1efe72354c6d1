"""The prepare and unprepare calls, claim by claim, with what was prepared before each."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from drahealth.proto.events import ClaimAllocated, GrpcCall
from drahealth.proto.services import PREPARE, UNPREPARE
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.observed.plain import at, mapping, sequence, text, texts
from drahealth.suites.checking.observed.registrations import outcome

Kind = Literal["prepare", "unprepare"]
_KINDS: dict[str, Kind] = {
    **{method.path: "prepare" for method in PREPARE.values()},
    **{method.path: "unprepare" for method in UNPREPARE.values()},
}


@dataclass(frozen=True, slots=True)
class Answered:
    """One device of an answer to NodePrepareResources."""

    device: Device
    requests: tuple[str, ...]
    cdi_ids: tuple[str, ...]


def answered(device: Any) -> Answered:
    """A device as plain data."""
    name = Device(text(device, "pool_name"), text(device, "device_name"))
    return Answered(name, texts(device, "request_names"), texts(device, "cdi_device_ids"))


@dataclass(frozen=True, slots=True)
class ClaimCall:
    """A prepare or unprepare call."""

    number: int
    began: float
    ended: float
    kind: Kind
    call: GrpcCall
    claims: tuple[str, ...]
    """UIDs of the request."""

    def has_result(self, uid: str) -> bool:
        """Whether the answer has a result for the claim."""
        return uid in mapping(self.call.response, "claims")

    def problem(self, uid: str) -> str:
        """Why the call did nothing for the claim; "" if it succeeded."""
        if self.call.code != "OK" or self.call.response is None:
            return outcome(self.call)
        if not self.has_result(uid):
            return "the answer has no result for the claim"
        return text(self.call.response, "claims", uid, "error")

    def devices(self, uid: str) -> tuple[Answered, ...]:
        """The devices that the answer has for the claim."""
        return tuple(map(answered, sequence(self.call.response, "claims", uid, "devices")))


@dataclass(frozen=True, slots=True)
class Step:
    """What one call did for one claim."""

    call: ClaimCall
    uid: str
    problem: str
    """"" if it succeeded."""
    devices: tuple[Answered, ...]
    held: tuple[Answered, ...] | None
    """The devices that were prepared for the claim before; None if it was not prepared."""
    known: bool
    """Whether the claim was prepared at any time before."""
    others: dict[str, tuple[Answered, ...]] = field(default_factory=dict)
    """The other claims that were prepared before, with their devices."""

    @property
    def number(self) -> int:
        """The record of the call."""
        return self.call.number


def claim_calls(evidence: Evidence, *experiments: str) -> list[ClaimCall]:
    """The calls of these experiments that name a claim, in order."""
    found = []
    for one in evidence.of(GrpcCall, *experiments):
        if kind := _KINDS.get(f"/{one.what.method}"):
            uids = tuple(text(claim, "uid") for claim in sequence(one.what.request, "claims"))
            if uids:
                found.append(ClaimCall(one.number, one.at - one.what.seconds, one.at, kind, one.what, uids))
    return found


def steps(evidence: Evidence, *experiments: str) -> Iterator[Step]:
    """Each claim of each call, in order."""
    held: dict[str, tuple[Answered, ...]] = {}
    known: set[str] = set()
    for call in claim_calls(evidence, *experiments):
        for uid in dict.fromkeys(call.claims):
            problem, devices = call.problem(uid), call.devices(uid)
            others = {other: found for other, found in held.items() if other != uid}
            yield Step(call, uid, problem, devices, held.get(uid), uid in known, others)
            if not problem and call.kind == "prepare":
                held[uid] = devices
                known.add(uid)
            elif not problem:
                held.pop(uid, None)


def allocations(evidence: Evidence, *experiments: str) -> dict[str, Observation[ClaimAllocated]]:
    """The allocated claims by UID."""
    return {one.what.claim_uid: one for one in evidence.of(ClaimAllocated, *experiments)}


def allocated(claim: ClaimAllocated, driver: str) -> dict[Device, list[dict[str, object]]]:
    """The allocation results of this driver by device; of all drivers if its name is unknown."""
    found: dict[Device, list[dict[str, object]]] = {}
    for result in claim.results:
        if not driver or text(result, "driver") == driver:
            found.setdefault(Device(text(result, "pool"), text(result, "device")), []).append(result)
    return found


def is_admin_access(result: dict[str, object]) -> bool:
    """Whether the request has admin access: it may use devices of other claims."""
    return at(result, "adminAccess") is True
