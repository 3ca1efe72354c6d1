"""The manager's two files: what is known of devices' health, and the prepared claims.

Each is JSON, replaced as a whole (a temporary file beside it, then a rename), so a reader sees the old or the new one.
The health file has the shape of the kubelet's `dra_health_state` (H-15), so that either can read the other's. A file
that is missing, unreadable or not what it should be costs its own wrong parts and nothing else.
"""

import json
import logging
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from drahealth.manager.cache import Entry
from drahealth.manager.claims import PreparedClaim
from drahealth.proto.values import DEFAULT_TIMEOUT, ClaimRef, DeviceId, Health, PreparedDevice

HEALTH_FILE = "dra_health_state"
CLAIMS_FILE = "dra_manager_state"
_NANOSECONDS = 1_000_000_000
_LONGEST = 2**63 - 1  # nanoseconds that a kubelet's duration holds
_LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_WRONG = (ValueError, TypeError, KeyError, AttributeError, OverflowError)

log = logging.getLogger(__name__)


class Checkpoint:
    """One JSON file of the manager. Neither reading nor writing raises: the node goes on without its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._failing = False

    def write(self, data: Any) -> None:
        """Replaces the file; a failure is logged once until a write succeeds again (H-19)."""
        try:
            self._replace(json.dumps(data, separators=(",", ":")))
        except (OSError, ValueError) as error:
            if not self._failing:
                log.error("checkpoint %s not written, going on without it: %s", self.path.name, error)
            self._failing = True
        else:
            self._failing = False

    def read(self) -> dict[str, Any]:
        """The file's object, empty if there is none or it cannot be used (H-20)."""
        try:
            data = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            log.error("checkpoint %s cannot be read, starting empty: %s", self.path.name, error)
            return {}
        if isinstance(data, dict):
            return data
        log.error("checkpoint %s holds no JSON object, starting empty", self.path.name)
        return {}

    def _replace(self, text: str) -> None:
        with NamedTemporaryFile("w", dir=self.path.parent, prefix=f"{self.path.name}.tmp", delete=False) as file:
            try:
                file.write(text)
                file.close()
                os.replace(file.name, self.path)  # noqa: PTH105  (one call, both names at hand)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise


def dump_health(entries: Iterable[tuple[DeviceId, Entry]], now: float, wall: float) -> dict[str, Any]:
    """The cache's entries as the health file holds them; times become Unix time, they outlive the clock."""
    drivers: dict[str, Any] = {}
    for device, entry in entries:
        devices = drivers.setdefault(device.driver, {"Devices": {}})["Devices"]
        devices[f"{device.pool}/{device.device}"] = {
            "PoolName": device.pool,
            "DeviceName": device.device,
            "Health": str(entry.health),
            "LastUpdated": _moment(wall - (now - entry.updated)),
            "HealthCheckTimeout": min(int(entry.timeout * _NANOSECONDS), _LONGEST),
            "Message": entry.message,
        }
    return drivers


def load_health(data: dict[str, Any], now: float, wall: float) -> Iterator[tuple[DeviceId, Entry]]:
    """The entries of a health file. Wrong ones are left out, with one line in the log for each driver."""
    for driver, state in data.items():
        devices = state.get("Devices") if isinstance(state, dict) else None
        wrong = 0
        for device in devices.values() if isinstance(devices, dict) else ():
            try:
                yield _load_entry(driver, device, now, wall)
            except _WRONG:
                wrong += 1
        if wrong or not isinstance(devices, dict):
            log.error("checkpoint: %s of driver %r left out", f"{wrong} devices" if wrong else "the entry", driver)


def _load_entry(driver: str, device: dict[str, Any], now: float, wall: float) -> tuple[DeviceId, Entry]:
    name = DeviceId(_text(driver), _text(device["PoolName"]), _text(device["DeviceName"]))
    message, timeout = _text(device.get("Message", "")), _timeout(device.get("HealthCheckTimeout", 0))
    return name, Entry(Health(device["Health"]), message, timeout, now - _age(device["LastUpdated"], wall))


def _moment(unix: float) -> str:
    """A Unix time as RFC 3339, in the years that can be written so."""
    return datetime.fromtimestamp(min(max(unix, 0.0), _LATEST), UTC).isoformat()


def _age(updated: Any, wall: float) -> float:
    """Seconds since then. A time from the future would keep a device fresh for as long: it counts as now."""
    time = datetime.fromisoformat(updated)
    if time.tzinfo is None:
        raise ValueError(f"{updated} has no time zone")
    return max(wall - time.timestamp(), 0.0)


def _timeout(nanoseconds: Any) -> float:
    """Seconds; the default where the entry has none of its own, as those of older kubelets."""
    if type(nanoseconds) is not int:
        raise TypeError(f"{nanoseconds!r} is not a whole number")
    return nanoseconds / _NANOSECONDS if nanoseconds > 0 else float(DEFAULT_TIMEOUT)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    value.encode()  # JSON can spell half a character, which neither a status nor a call to a plugin could
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is not a list")
    return tuple(map(_text, values))


def dump_claims(claims: Iterable[PreparedClaim]) -> dict[str, Any]:
    """The prepared claims as the claims file holds them (P-33)."""
    return {
        "claims": [
            {
                "namespace": claim.ref.namespace,
                "name": claim.ref.name,
                "uid": claim.ref.uid,
                "drivers": list(claim.drivers),
                "pods": sorted(claim.pods),
                "complete": claim.complete,
                "devices": [_dump_device(device) for device in claim.devices],
            }
            for claim in claims
        ]
    }


def load_claims(data: dict[str, Any]) -> Iterator[PreparedClaim]:
    """The claims of a claims file. Wrong ones are left out, with a line in the log."""
    claims = data.get("claims", None if data else [])
    if not isinstance(claims, list):
        log.error("checkpoint: no list of claims in it, starting with none")
        return
    for claim in claims:
        try:
            yield _load_claim(claim)
        except _WRONG as error:
            log.error("checkpoint: a claim was left out: %r", error)


def _load_claim(claim: dict[str, Any]) -> PreparedClaim:
    devices, complete = claim["devices"], claim["complete"]
    if not (isinstance(devices, list) and isinstance(complete, bool)):
        raise TypeError(f"{devices!r} is not a list of devices, or {complete!r} no yes or no")
    return PreparedClaim(
        ClaimRef(_text(claim["namespace"]), _text(claim["name"]), _text(claim["uid"])),
        _texts(claim["drivers"]),
        tuple(map(_load_device, devices)),
        set(_texts(claim["pods"])),
        complete,
    )


def _dump_device(device: PreparedDevice) -> dict[str, Any]:
    return {
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.id.device,
        "requests": list(device.requests),
        "cdiIDs": list(device.cdi_ids),
        "shareID": device.share_id,
    }


def _load_device(data: dict[str, Any]) -> PreparedDevice:
    share = data.get("shareID")
    return PreparedDevice(
        DeviceId(_text(data["driver"]), _text(data["pool"]), _text(data["device"])),
        _texts(data["requests"]),
        _texts(data["cdiIDs"]),
        None if share is None else _text(share),
    )
