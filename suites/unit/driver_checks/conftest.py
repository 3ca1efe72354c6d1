"""Labs of experiments."""

from collections.abc import AsyncIterator

import pytest

from drahealth.suites.unit.driver_checks.lab_rig import LabRig


@pytest.fixture
async def rig() -> AsyncIterator[LabRig]:
    rig = LabRig()
    yield rig
    await rig.close()
