"""The claims that a fake driver has prepared, in a file beside its socket, as drivers keep them.

All instances of a driver share it, so the one that takes over in a rolling update knows what the older one prepared,
and so does a driver that comes back after a crash.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from drahealth.fakes.files.atomic import replace_file
from drahealth.proto.values import PreparedDevice

log = logging.getLogger(__name__)

Claims = dict[str, tuple[PreparedDevice, ...]]


class PreparedClaims:
    """By claim uid the devices that were prepared for it. A file that cannot be read is as good as none."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "prepared.json"

    def all(self) -> Claims:
        """The claims, in the order in which they were prepared."""
        try:
            found: Claims = _reader().validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s is passed over: %s", self._path, str(error).splitlines()[0])
            return {}
        return found

    def devices(self) -> dict[tuple[str, str], PreparedDevice]:
        """The devices of all claims by pool and name; one that several claims share has the requests of all."""
        merged: dict[tuple[str, str], PreparedDevice] = {}
        for device in (device for devices in self.all().values() for device in devices):
            name = (device.id.pool, device.id.device)
            other = merged.get(name, replace(device, requests=(), cdi_ids=()))
            requests = _joined(other.requests, device.requests)
            merged[name] = replace(device, requests=requests, cdi_ids=_joined(other.cdi_ids, device.cdi_ids))
        return merged

    def add(self, uid: str, devices: Iterable[PreparedDevice]) -> None:
        """The claim is prepared. Raises OSError."""
        self._write({**self.all(), uid: tuple(devices)})

    def drop(self, uid: str) -> None:
        """The claim is not prepared any more; nothing for one that never was. Raises OSError."""
        claims = self.all()
        if claims.pop(uid, None) is not None:
            self._write(claims)

    def forget(self) -> None:
        """Removes the file."""
        self._path.unlink(missing_ok=True)

    def _write(self, claims: Claims) -> None:
        data = {uid: [asdict(device) for device in devices] for uid, devices in claims.items()}
        replace_file(self._path, json.dumps(data).encode())


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


@cache
def _reader() -> Any:
    from pydantic import TypeAdapter  # heavy, and only who has prepared something needs it

    return TypeAdapter(Claims)
