"""Small scripts for the tests of the differential test."""

import json
from collections.abc import Sequence

from differential.script import (
    Claim,
    Device,
    Driver,
    Pod,
    Reading,
    Report,
    Request,
    Script,
    Step,
    Use,
    script_to_json,
)


def script(*steps: Step, driver: Driver | None = None, pods: Sequence[Pod] | None = None) -> Script:
    """A script with one driver, one device `gpu-0`, one claim, one pod, and these steps."""
    return Script(
        (driver or Driver((Device("gpu-0"),)),),
        (Claim((Request("gpu", 0),)),),
        tuple(pods) if pods is not None else (Pod(((Use(0),),)),),
        steps,
    )


def dump_script(script: Script) -> str:
    """The script as JSON, as files have it."""
    return json.dumps(script_to_json(script), ensure_ascii=False)


def unhealthy(message: str = "", timeout: int = 0, pause: float = 0.0) -> Report:
    """A report with this health of the device."""
    return Report(0, (Reading("pool", "gpu-0", 2, message, timeout),), pause=pause)
