"""Encode reports as the bytes of a health API, and reuse the bytes of unchanged devices.

A report of thousands of devices with one change costs as much as one device. A protobuf message with one repeated
field is the concatenation of its entries, so the encoder keeps the entry of each device.
"""

from collections.abc import Sequence

from drahealth.proto.health_apis import HealthApi
from drahealth.proto.values import DeviceHealth, Report


class ReportEncoder:
    """Encodes the reports of one driver for one health API that does not list prepared claims."""

    def __init__(self, health_api: HealthApi) -> None:
        self._health_api = health_api
        self._report: Report = ()
        self._parts: Sequence[bytes] = ()
        self._message = b""

    def encode(self, report: Report) -> bytes:
        """The encoded response message of these devices; reuses the result for the last report."""
        if report is not self._report:
            self._parts = self._changed(report) if len(report) == len(self._report) else self._others(report)
            self._report = report
            self._message = b"".join(self._parts)
        return self._message

    def _changed(self, report: Report) -> Sequence[bytes]:
        """Parts of a report with the same devices in the same order."""
        known = zip(report, self._report, self._parts, strict=True)
        return [part if device is before else self._part(device) for device, before, part in known]

    def _others(self, report: Report) -> Sequence[bytes]:
        # The last report is still held, so an equal id is the same device.
        known = dict(zip(map(id, self._report), self._parts, strict=True))
        return [known.get(id(device)) or self._part(device) for device in report]

    def _part(self, device: DeviceHealth) -> bytes:
        return bytes(self._health_api.encode((device,)).SerializeToString())
