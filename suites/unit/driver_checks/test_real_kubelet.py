"""The real kubelet of a certification: its checkpoint, and machines without one."""

import json
from pathlib import Path

import pytest

from drahealth.proto.events import ExperimentEnded, PreparedClaim
from drahealth.suites.driver_checks.mutants.driver import HEALTHY, command
from drahealth.suites.driver_checks.mutants.proving import level_of
from drahealth.suites.driver_checks.real_kubelet import absence, prepared_claims
from drahealth.suites.driver_checks.run_experiments import run_experiments
from drahealth.suites.unit.driver_checks.runs import run_with

DEVICE = {"PoolName": "p", "DeviceName": "d", "ShareID": None, "RequestNames": ["r"], "CDIDeviceIDs": ["a.com/b=c"]}
STATE = {"ClaimInfoStateList": [{"ClaimUID": "u", "DriverState": {"d.com": {"Devices": [DEVICE]}}}]}


def test_checkpoint_has_the_devices_of_each_claim() -> None:
    device = {"pool_name": "p", "device_name": "d", "request_names": ["r"], "cdi_device_ids": ["a.com/b=c"]}
    found = list(prepared_claims({"Data": json.dumps(STATE), "Checksum": 1}))
    assert found == [PreparedClaim("u", "d.com", (device,))]


@pytest.mark.parametrize("checkpoint", [{}, [], {"Data": "{"}, {"Data": "[]"}, {"Data": '{"ClaimInfoStateList": [1]}'}])
def test_checkpoint_of_another_format_has_no_claims(checkpoint: object) -> None:
    assert [one for one in prepared_claims(checkpoint) if one.devices] == []


async def test_machine_without_its_programs_is_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAHEALTH_CACHE", str(tmp_path))
    only = frozenset({"kubelet-pod-status"})
    evidence = await run_experiments(run_with(command=command(HEALTHY), only=only, level="full"))
    (end,) = evidence.of(ExperimentEnded, "kubelet-pod-status")
    assert (end.what.outcome, "drahealth binaries ensure" in end.what.reason) == ("error", True)
    assert absence()
    assert level_of("busy-while-watched") == "core"
