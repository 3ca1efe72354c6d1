"""Two instances of a fake driver in a rolling update, as a kubelet sees them."""

import asyncio
import json
from collections.abc import Awaitable, Callable

from drahealth.fakes.cluster.api import SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.control.fake_options import DriverControl
from drahealth.fakes.control.remote import ControlFailed
from drahealth.fakes.kubelet_plugin.slices import INSTANCE
from drahealth.proto.services import NOTIFY_REGISTRATION
from drahealth.suites.unit.endings import PATIENCE as PATIENCE
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig
from drahealth.suites.unit.manager.rig import until

NEWER = "upgrade-1"
OLDER_SOCKETS = ["data/.dra", "data/dra.sock", f"registry/.{DRIVER}-reg", f"registry/{DRIVER}-reg.sock"]
NEWER_SOCKETS = [
    f"data/.dra-{NEWER}",
    f"data/dra-{NEWER}.sock",
    f"registry/.{DRIVER}-{NEWER}-reg",
    f"registry/{DRIVER}-{NEWER}-reg.sock",
]
WRONG = (ValueError, ControlFailed)  # here and there


async def registers(rig: Rig, ok: bool = True, error: str = "", instance: str = NEWER) -> None:
    """A kubelet says so of a newer instance, once it is there."""
    where = f"registry/{DRIVER}-{instance}-reg.sock"
    assert await until(lambda: where in rig.sockets(), PATIENCE)
    await rig.call(NOTIFY_REGISTRATION, where, plugin_registered=ok, error=error)


async def both_run(rig: Rig, driver: DriverControl, overlap: float = 60.0) -> "asyncio.Task[None]":
    """The newer instance has taken over, and the older one has not ended yet."""
    upgrading = asyncio.create_task(driver.upgrade(overlap))
    await registers(rig)
    await comes_true(lambda: is_now(driver, NEWER))
    return upgrading


async def is_now(driver: DriverControl, instance: str) -> bool:
    return (await driver.state()).instance == instance


async def is_well(driver: DriverControl) -> bool:
    return not (await driver.state()).faults


async def comes_true(ask: Callable[[], Awaitable[bool]]) -> None:
    """Returns once the answer is yes."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await ask():
                return
            await asyncio.sleep(0.002)


async def over(rig: Rig, upgrading: "asyncio.Task[None]") -> None:
    """The overlap has passed."""
    rig.clock.jump(60)
    await asyncio.wait_for(upgrading, PATIENCE)


async def upgraded(rig: Rig, driver: DriverControl) -> None:
    await over(rig, await both_run(rig, driver))


def written_by(rig: Rig) -> str:
    """The instance whose CDI specification is there."""
    (path,) = (rig.root / "cdi").glob("*.json")
    return str(json.loads(path.read_text())["annotations"]["drahealth.instance"])


async def published_by(rig: Rig) -> list[str]:
    """The instances whose slices are there."""
    return [found["metadata"].get("annotations", {}).get(INSTANCE, "") for found in await rig.api.list(SLICES)]


async def is_published_by(rig: Rig, instance: str) -> bool:
    return await published_by(rig) == [instance]


class Moody(ApiServer):
    """It keeps existing objects and rejects new ones."""

    async def replace(self, kind: Kind, obj: Object) -> Object:
        if NEWER in obj["metadata"].get("annotations", {}).values():
            raise ApiError(403, "Forbidden", "resourceslices is forbidden")
        return await super().replace(kind, obj)
