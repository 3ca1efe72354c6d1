"""The claims part of a fake driver: it prepares claims, and keeps them in a file."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.control.commands.without_subcommand import FailClaims
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.kubelet_plugin.interface import Device, NamespacedObject, PrepareResult
from drahealth.fakes.program.private_files import replace_file
from drahealth.proto import events
from drahealth.proto.events import Observe
from drahealth.proto.values import DeviceId, PreparedDevice

# The prepared claims of a fake driver, in a file next to its socket.
#
# All instances of a driver share the file. So a newer instance in a rolling update, or a driver that restarts after a
# crash, knows the claims that were prepared before.

log = logging.getLogger(__name__)

Claims = dict[str, tuple[PreparedDevice, ...]]


class PreparedClaims:
    """Prepared devices by claim uid. An unreadable file counts as empty."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "prepared.json"

    def all(self) -> Claims:
        """The claims, in order of preparation."""
        try:
            found: Claims = _reader().validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("ignoring unreadable file %s: %s", self._path, str(error).splitlines()[0])
            return {}
        return found

    def devices(self) -> dict[tuple[str, str], PreparedDevice]:
        """The devices of all claims, by pool and name; a shared device has the requests of all its claims."""
        merged: dict[tuple[str, str], PreparedDevice] = {}
        for device in (device for devices in self.all().values() for device in devices):
            name = (device.id.pool, device.id.device)
            other = merged.get(name, replace(device, requests=(), cdi_ids=()))
            requests = _joined(other.requests, device.requests)
            merged[name] = replace(device, requests=requests, cdi_ids=_joined(other.cdi_ids, device.cdi_ids))
        return merged

    def add(self, uid: str, devices: Iterable[PreparedDevice]) -> None:
        """Records a prepared claim. Raises OSError."""
        self._write({**self.all(), uid: tuple(devices)})

    def remove(self, uid: str) -> None:
        """Removes a claim, if it is prepared. Raises OSError."""
        claims = self.all()
        if claims.pop(uid, None) is not None:
            self._write(claims)

    def delete_file(self) -> None:
        """Deletes the file."""
        self._path.unlink(missing_ok=True)

    def _write(self, claims: Claims) -> None:
        data = {uid: [asdict(device) for device in devices] for uid, devices in claims.items()}
        replace_file(self._path, json.dumps(data).encode())


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


@cache
def _reader() -> Any:
    from pydantic import TypeAdapter  # slow import, needed only after the first prepared claim

    return TypeAdapter(Claims)


# The claims part of a fake driver (`kubelet_plugin.interface.DRAPlugin`): it stores the prepared claims in a file.


class FakeDraPlugin:
    """Stores prepared claims for `devices` in `prepared`; calls `changed()` after each change.

    `errors` has what fails, by call: prepare, unprepare.
    """

    def __init__(
        self,
        options: DriverOptions,
        devices: Set[DeviceId],
        prepared: PreparedClaims,
        observe: Observe,
        changed: Callable[[], None],
        errors: Mapping[str, FailClaims],
    ) -> None:
        self._options = options
        self._devices = devices
        self._prepared = prepared
        self._observe = observe
        self._changed = changed
        self._errors = errors

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        if self._failure("prepare").omit:
            return {}
        results = {claim["metadata"]["uid"]: self._prepare(claim) for claim in claims}
        self._changed()
        return results

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        failure = self._failure("unprepare")
        if failure.omit or failure.error:
            return {} if failure.omit else {claim.uid: ValueError(failure.error) for claim in claims}
        for claim in claims:
            self._prepared.remove(claim.uid)
            self._observe(events.Unprepared(self._options.name, self._options.instance, claim.uid))
        self._changed()
        return {claim.uid: None for claim in claims}

    def _prepare(self, claim: Object) -> PrepareResult:
        uid = claim["metadata"]["uid"]
        results = claim["status"]["allocation"].get("devices", {}).get("results", [])
        own = [result for result in results if result["driver"] == self._options.name]
        if problem := self._failure("prepare").error or self._refusal(uid, own):
            return PrepareResult(error=ValueError(problem))
        devices = [device for result in own for device in self._returned(result)]
        self._prepared.add(uid, devices)
        names = tuple(device.id.device for device in devices)
        self._observe(events.Prepared(self._options.name, self._options.instance, uid, names))
        return PrepareResult(
            tuple(Device(d.id.pool, d.id.device, d.requests, d.cdi_ids, d.share_id) for d in devices),
        )

    def _failure(self, call: str) -> FailClaims:
        return self._errors.get(call, FailClaims(call))

    def _refusal(self, uid: str, results: Sequence[dict[str, Any]]) -> str:
        """Why devices cannot be prepared for this claim; empty if they can.

        Claims with admin access, and shares of a device, may use a device that another claim holds. A claim that is
        prepared stays so if a newer driver does not publish its devices.
        """
        prepared = self._prepared.all()
        held = {device.id for claim, devices in prepared.items() if claim != uid for device in devices}
        for result in results:
            device = DeviceId(self._options.name, result["pool"], result["device"])
            if device not in self._devices and uid not in prepared:
                return f"driver {device.driver} does not publish device {device.device} of pool {device.pool}"
            if device in held and not (result.get("adminAccess") or result.get("shareID")):
                return f"device {device.device} is prepared for another claim"
        return ""

    def _returned(self, result: dict[str, Any]) -> list[PreparedDevice]:
        """The prepared devices for an allocated device: itself, or its replacements in the options."""
        driver, request = self._options.name, (result["request"].split("/")[0],)
        if result["device"] not in self._options.returns:
            name = DeviceId(driver, result["pool"], result["device"])
            return [PreparedDevice(name, request, self._cdi_ids(result["device"]), result.get("shareID"))]
        return [
            PreparedDevice(
                DeviceId(driver, replacement.pool, replacement.device),
                request if replacement.requests is None else replacement.requests,
                self._cdi_ids(replacement.device) if replacement.cdi_ids is None else replacement.cdi_ids,
                replacement.share_id or None,
            )
            for replacement in self._options.returns[result["device"]]
        ]

    def _cdi_ids(self, device: str) -> tuple[str, ...]:
        """The CDI ids of a device of the driver."""
        return (self._options.cdi_id(device),) if self._options.cdi_ids else ()
