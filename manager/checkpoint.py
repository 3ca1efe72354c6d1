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
from drahealth.proto.values import ClaimRef, DeviceId, Health, PreparedDevice

HEALTH_FILE = "dra_health_state"
CLAIMS_FILE = "dra_manager_state"
_NANOSECONDS = 1_000_000_000

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
            "LastUpdated": datetime.fromtimestamp(wall - (now - entry.updated), UTC).isoformat(),
            "HealthCheckTimeout": int(entry.timeout * _NANOSECONDS),
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
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                wrong += 1
        if wrong or not isinstance(devices, dict):
            log.error("checkpoint: %s of driver %r left out", f"{wrong} devices" if wrong else "the entry", driver)


def _load_entry(driver: str, device: dict[str, Any], now: float, wall: float) -> tuple[DeviceId, Entry]:
    pool, name, message = device["PoolName"], device["DeviceName"], device.get("Message", "")
    if not (isinstance(pool, str) and isinstance(name, str) and isinstance(message, str)):
        raise TypeError("names and message are text")
    age = wall - datetime.fromisoformat(device["LastUpdated"]).timestamp()
    # A time from the future would keep a device fresh for as long: it counts as heard of now.
    updated = now - max(age, 0.0)
    timeout = device.get("HealthCheckTimeout", 30 * _NANOSECONDS) / _NANOSECONDS
    return DeviceId(driver, pool, name), Entry(Health(device["Health"]), message, timeout, updated)


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
                "devices": [_dump_device(device) for device in claim.devices],
            }
            for claim in claims
        ]
    }


def load_claims(data: dict[str, Any]) -> Iterator[PreparedClaim]:
    """The claims of a claims file. Wrong ones are left out, with a line in the log."""
    claims = data.get("claims", [])
    for claim in claims if isinstance(claims, list) else ():
        try:
            yield PreparedClaim(
                ClaimRef(str(claim["namespace"]), str(claim["name"]), str(claim["uid"])),
                tuple(map(str, claim["drivers"])),
                tuple(_load_device(device) for device in claim["devices"]),
                set(map(str, claim["pods"])),
            )
        except (TypeError, KeyError, AttributeError) as error:
            log.error("checkpoint: a claim was left out, it has no usable %s", error)


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
    return PreparedDevice(
        DeviceId(str(data["driver"]), str(data["pool"]), str(data["device"])),
        tuple(map(str, data["requests"])),
        tuple(map(str, data["cdiIDs"])),
        data.get("shareID"),
    )
