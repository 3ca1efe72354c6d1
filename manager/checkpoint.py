"""The files of the manager: the health of devices, when it is written, and the prepared claims."""

import asyncio
import json
import logging
import math
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

from drahealth.manager.cache import Entry, HealthCache, Name
from drahealth.manager.calls import spawn
from drahealth.manager.claims import PreparedClaim
from drahealth.proto.clock import Clock
from drahealth.proto.events import CheckpointWritten, Observe, ignore
from drahealth.proto.quoting import one_line
from drahealth.proto.values import DEFAULT_TIMEOUT, ClaimRef, DeviceId, Health, PreparedDevice

# Two of the manager's files: the health of devices, and the prepared claims.
#
# Each is JSON and replaced as a whole (a temporary file, then a rename), so a reader sees the old or the new file.
# The health file has the format of the kubelet's `dra_health_state` (H-15), so either can read the other's file.
# Missing, unreadable or wrong parts are ignored, and the others are kept. `HealthFile` decides when the health is
# written.

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


# Decides when the health file is written: soon after a change, rarely for heartbeats, and at the end.
#
# - A change is written after a short delay, so that several changes share a write and pods are notified first.
# - After a write there is a pause of three times its duration, so that writing takes at most a quarter of the time.
# - The renewal from a heartbeat is written with the next change, or after half of the device's timeout
#   (`Update.renew_by`). So the heartbeats of all drivers share their writes. If the profile does not store heartbeats,
#   they are written only with a change, as in kubelets (H-17).
# - A write has the whole state of one moment. Only the drivers with new reports are encoded again.
# - After a failed write, the next write includes its content; without a change, it is retried after a pause.
# - `close` writes everything that is pending.

GATHERING = 0.002
"""Seconds from a change to the write."""

RESTING = 3
"""The pause after a write, as a multiple of its duration."""

AGAIN = 5.0
"""Seconds from a failed write to the next attempt, if no change causes one before."""


class HealthFile:
    """The file with the health of devices; it follows `cache`."""

    def __init__(self, file: Checkpoint, cache: HealthCache, clock: Clock) -> None:
        self._file = file
        self._cache = cache
        self._clock = clock
        self._texts: dict[str, bytes] = {}
        self._unsaved: set[str] = set()
        self._failed = False
        self._wanted = False
        self._renew_by = math.inf
        self._is_abandoned = False
        self._writer: asyncio.Task[None] | None = None
        self._renewer: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Loads the file into the cache."""
        self._cache.restore(load_health(self._file.read(), self._clock.now(), self._clock.wall()))

    def changed(self, driver: str) -> None:
        """Records a change of the driver's health: the file is written soon."""
        self._unsaved.add(driver)
        self._want()

    def renewed(self, driver: str, by: float) -> None:
        """Records a report without a change: the file is written at `by`, or with an earlier write.

        With `math.inf` no write is needed.
        """
        self._unsaved.add(driver)
        self._want_by(by)

    async def written(self) -> None:
        """Waits until the file has all changes, except renewals."""
        while self._wanted and self._writer:
            await asyncio.wait([self._writer])

    def abandon(self) -> None:
        """Writes nothing any more, as after a kill."""
        self._is_abandoned = True
        self._wanted, self._failed, self._renew_by = False, False, math.inf
        self._stop_renewer()
        if self._writer:
            self._writer.cancel()

    async def close(self) -> None:
        """Writes all pending changes."""
        tasks = [task for task in (self._writer, self._renewer) if task is not None]
        for task in tasks:
            task.cancel()
        if self._wanted or self._renew_by < math.inf or self._failed:
            self._write()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _want(self) -> None:
        if self._is_abandoned:
            return
        self._wanted = True
        if self._writer is None:
            self._writer = spawn(self._write_while_wanted(), "health file")

    def _want_by(self, when: float) -> None:
        if when < self._renew_by and not self._is_abandoned:
            self._renew_by = when
            self._stop_renewer()
            self._renewer = spawn(self._want_at(when), "health file, later")

    async def _want_at(self, when: float) -> None:
        await self._clock.sleep(when - self._clock.now())
        self._renewer = None
        self._want()

    async def _write_while_wanted(self) -> None:
        try:
            while self._wanted:
                await asyncio.sleep(GATHERING)
                began = time.perf_counter()
                self._write()
                if self._failed:
                    self._want_by(self._clock.now() + AGAIN)
                await asyncio.sleep(RESTING * (time.perf_counter() - began))
        finally:
            self._writer = None

    def _write(self) -> None:
        began = time.perf_counter()
        self._wanted, self._renew_by = False, math.inf
        self._stop_renewer()
        self._put_into_words()
        parts = [part for text in self._texts.values() for part in (b",", text)]
        self._failed = not self._file.write_text([b"{", *parts[1:], b"}"], began)

    def _put_into_words(self) -> None:
        now, wall, known = self._clock.now(), self._clock.wall(), self._cache.devices()
        for driver in self._unsaved | (known.keys() - self._texts.keys()):
            if devices := known.get(driver):
                self._texts[driver] = health_text(driver, devices, now, wall)
            else:
                self._texts.pop(driver, None)
        self._unsaved.clear()

    def _stop_renewer(self) -> None:
        renewer, self._renewer = self._renewer, None
        if renewer:
            renewer.cancel()
