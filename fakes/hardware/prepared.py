"""The prepared claims of a fake driver, in a file next to its socket.

All instances of a driver share the file. So a newer instance in a rolling update, or a driver that restarts after a
crash, knows the claims that were prepared before.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from drahealth.fakes.program.atomic import replace_file
from drahealth.proto.values import PreparedDevice

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
