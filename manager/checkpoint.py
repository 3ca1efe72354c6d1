"""Two of the manager's files: the health of devices, and the prepared claims.

Each is JSON and replaced as a whole (a temporary file, then a rename), so a reader sees the old or the new file. The
health file has the format of the kubelet's `dra_health_state` (H-15), so either can read the other's file. Missing,
unreadable or wrong parts are ignored, and the others are kept. `health_file` decides when the health is written.
"""

import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii as _quoted
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import quote

from drahealth.manager.cache import Entry, Name
from drahealth.manager.claims import PreparedClaim
from drahealth.proto.events import CheckpointWritten, Observe, ignore
from drahealth.proto.quoting import one_line
from drahealth.proto.values import DEFAULT_TIMEOUT, ClaimRef, DeviceId, Health, PreparedDevice

HEALTH_FILE = "dra_health_state"
CLAIMS_FILE = "dra_manager_state"
_TEMPORARY = ".tmp"  # and something random, as a kubelet's (H-16)
_NANOSECONDS = 1_000_000_000
_LONGEST = 2**63 - 1  # nanoseconds that a kubelet's duration holds
_LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_WRONG = (ValueError, TypeError, KeyError, AttributeError, OverflowError)

log = logging.getLogger(__name__)


class Checkpoint:
    """One JSON file of the manager. Reading and writing never raise: the node works without its file."""

    def __init__(self, path: Path, observe: Observe = ignore) -> None:
        self.path = path
        self._observe = observe
        self._failing = False

    def write(self, data: Any) -> bool:
        """Replaces the file; returns False on failure, which is logged once until a write succeeds again (H-19)."""
        began = time.perf_counter()
        return self.write_text([json.dumps(data, separators=(",", ":")).encode()], began)

    def write_text(self, parts: Sequence[bytes], began: float) -> bool:
        """The same with encoded JSON; the encoding started at this time of the performance counter."""
        try:
            self._replace(parts)
        except OSError as error:
            if not self._failing:
                log.error("checkpoint %s cannot be written, continuing without it: %s", self.path.name, error)
            self._failing = True
        else:
            self._failing = False
        ok, seconds = not self._failing, time.perf_counter() - began
        self._observe(CheckpointWritten(self.path.name, sum(map(len, parts)), seconds, ok))
        return ok

    def read(self) -> dict[str, Any]:
        """The file's object; empty if the file is missing or unusable (H-20).

        Removes the temporary files of killed writers, so call it at the start, before any write.
        """
        self._tidy()
        try:
            data = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            log.error("checkpoint %s cannot be read, starting empty: %s", self.path.name, error)
            return {}
        if isinstance(data, dict):
            return data
        log.error("checkpoint %s is not a JSON object, starting empty", self.path.name)
        return {}

    def _tidy(self) -> None:
        """Removes the temporary files of killed writers."""
        with suppress(OSError):
            for path in self.path.parent.iterdir():
                if path.name.startswith(f"{self.path.name}{_TEMPORARY}"):
                    with suppress(OSError):
                        path.unlink()

    def _replace(self, parts: Iterable[bytes]) -> None:
        prefix = f"{self.path.name}{_TEMPORARY}"
        with NamedTemporaryFile("wb", dir=self.path.parent, prefix=prefix, delete=False) as file:
            try:
                file.writelines(parts)
                file.close()
                os.replace(file.name, self.path)  # noqa: PTH105  (one call, both names at hand)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise


def health_text(driver: str, devices: Mapping[Name, Entry], now: float, wall: float) -> bytes:
    """A driver's member of the health file; times become Unix time, because they outlive the clock.

    The key of a device is `pool/device`, as in a kubelet's file. There two devices can have the same key. A slash in a
    device's own name, which Kubernetes does not allow, is escaped as in a URL.

    The text is built by hand, which takes a quarter of the time of a dictionary and `json.dumps`.
    """
    pools: dict[str, str] = {}
    ends: dict[tuple[Health, str, float, float], str] = {}
    texts = []
    for (pool, device), entry in devices.items():
        state = (entry.health, entry.message, entry.timeout, entry.updated)
        name = _quoted(device)
        in_pool = pools.get(pool) or pools.setdefault(pool, _quoted(pool))
        end = ends.get(state) or ends.setdefault(state, _end(entry, wall - (now - entry.updated)))
        written_pool, written_name = (
            (in_pool, name) if entry.reported_name is None else map(_quoted, entry.reported_name)
        )
        key = name if "/" not in device and "%" not in device else _quoted(quote(device, safe=""))
        texts.append(f'{in_pool[:-1]}/{key[1:]}:{{"PoolName":{written_pool},"DeviceName":{written_name},{end}')
    return f'{_quoted(driver)}:{{"Devices":{{{",".join(texts)}}}}}'.encode()


def _end(entry: Entry, updated: float) -> str:
    """The text after the names."""
    timeout = min(int(entry.timeout * _NANOSECONDS), _LONGEST)
    return (
        f'"Health":"{entry.health}","LastUpdated":"{_moment(updated)}",'
        f'"HealthCheckTimeout":{timeout},"Message":{_quoted(entry.message)}}}'
    )


def load_health(data: dict[str, Any], now: float, wall: float) -> Iterator[tuple[DeviceId, Entry]]:
    """The entries of a health file. Wrong entries are ignored, with one log line for each driver.

    The devices of a driver are a map, as in kubelets, or a list, as in the design document (READ-11).
    """
    for driver, state in data.items():
        devices = state.get("Devices") if isinstance(state, dict) else None
        listed = list(devices.values()) if isinstance(devices, dict) else devices
        wrong = 0
        for device in listed if isinstance(listed, list) else ():
            try:
                yield _load_entry(driver, device, now, wall)
            except _WRONG:
                wrong += 1
        if wrong or not isinstance(listed, list):
            what = f"{wrong} devices" if wrong else "the entry"
            log.error("checkpoint: ignoring %s of driver %s", what, one_line(repr(driver)))


def _load_entry(driver: str, device: dict[str, Any], now: float, wall: float) -> tuple[DeviceId, Entry]:
    name = DeviceId(_text(driver), _text(device["PoolName"]), _text(device["DeviceName"]))
    message, timeout = _text(device.get("Message", "")), _timeout(device.get("HealthCheckTimeout", 0))
    return name, Entry(Health(device["Health"]), message, timeout, now - _age(device["LastUpdated"], wall))


def _moment(unix: float) -> str:
    """A Unix time as RFC 3339, limited to the years that RFC 3339 can express."""
    return datetime.fromtimestamp(min(max(unix, 0.0), _LATEST), UTC).isoformat()


def _age(updated: Any, wall: float) -> float:
    """Seconds since this time. A future time counts as now, because it would keep a device fresh for too long."""
    time = datetime.fromisoformat(updated)
    if time.tzinfo is None:
        raise ValueError(f"{updated} has no time zone")
    return max(wall - time.timestamp(), 0.0)


def _timeout(nanoseconds: Any) -> float:
    """Seconds; the default for entries without a timeout, as from older kubelets."""
    if type(nanoseconds) is not int:
        raise TypeError(f"{nanoseconds!r} is not a whole number")
    if nanoseconds > _LONGEST:
        raise OverflowError(f"duration {nanoseconds} ns is too long")
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
    """The prepared claims in the format of the claims file (P-33)."""
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
    """The claims of a claims file. Wrong claims are ignored, with one log line for all."""
    claims = data.get("claims", None if data else [])
    if not isinstance(claims, list):
        log.error("checkpoint: claims must be a list, starting without claims")
        return
    wrong: list[str] = []
    for claim in claims:
        try:
            yield _load_claim(claim)
        except _WRONG as error:
            wrong.append(one_line(repr(error)))
    if wrong:
        log.error("checkpoint: ignoring %d invalid claims, the first: %s", len(wrong), wrong[0])


def _load_claim(claim: dict[str, Any]) -> PreparedClaim:
    devices, complete = claim["devices"], claim["complete"]
    if not (isinstance(devices, list) and isinstance(complete, bool)):
        raise TypeError(f"devices must be a list and complete a boolean, got {devices!r} and {complete!r}")
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
