"""Places for drivers on the helper."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.kubelet_plugin.plugin_rig import PluginRig


@pytest.fixture
async def rig() -> AsyncIterator[PluginRig]:
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        async with asyncio.timeout(PATIENCE):
            yield PluginRig(Path(folder))
