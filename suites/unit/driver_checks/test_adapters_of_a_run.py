"""`drahealth certify` with the fault adapters `http`, `patch` and `annotate`, from driver profile to verdicts."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from secrets import token_urlsafe

import pytest
from aiohttp import web

from drahealth.suites.commands.certify_run import judged
from drahealth.suites.driver_checks.fault_adapters import FaultAdapters
from drahealth.suites.driver_checks.profile.file import read_profile
from drahealth.suites.driver_checks.run_experiments import run_experiments
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.unit.driver_checks.certificates import TODAY
from drahealth.suites.unit.driver_checks.node_driver import COMMAND, KEY

PATCH = f"""
break = {{ patch = "Node/{{node_name}}", merge = {{ metadata = {{ labels = {{ "{KEY}" = "{{device}}" }} }} }} }}
heal = {{ patch = "Node/{{node_name}}", merge = '{{"metadata": {{"labels": {{"{KEY}": null}}}}}}' }}
"""
ANNOTATE = f"""
break = {{ annotate = "Node/{{node_name}}", annotations = {{ "{KEY}" = "{{device}}" }} }}
heal = {{ annotate = "Node/{{node_name}}", remove-annotations = ["{KEY}"] }}
"""
HTTP = """
break = { http = "URL/break", body = "{driver_dir}/health/{device}" }
heal = { http = "URL/heal", method = "DELETE", body = "{driver_dir}/health/{device}" }
"""
EXPERIMENTS = frozenset({"registration", "services", "faults"})


def switch(path: Path, *, broken: bool) -> None:
    """Breaks or heals a device of the driver."""
    path.parent.mkdir(exist_ok=True)
    if broken:
        path.with_suffix(".draft").write_text("Unhealthy simulated")
        path.with_suffix(".draft").replace(path)
    else:
        path.unlink()


@pytest.fixture
async def device_simulator() -> AsyncIterator[str]:
    """An HTTP server that breaks the device whose file it gets; its URL, which other users do not know."""

    async def handle(request: web.Request) -> web.Response:
        switch(Path(await request.text()), broken=request.method != "DELETE")
        return web.Response()

    app, secret = web.Application(), token_urlsafe()
    app.router.add_route("*", f"/{secret}/{{verb}}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    yield f"http://{host}:{port}/{secret}"
    await runner.cleanup()


@pytest.mark.parametrize("actions", [PATCH, ANNOTATE, HTTP], ids=["patch", "annotate", "http"])
async def test_driver_is_asked_to_report_a_fault(tmp_path: Path, device_simulator: str, actions: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(
        f'format = "driver-profile/v1"\n[driver]\ncommand = {json.dumps(COMMAND)}\n'
        f'[[fault]]\nname = "asked"\nsettle = "20s"\n{actions.replace("URL", device_simulator)}'
    )
    evidence = await run_experiments(replace(read_profile(path), only=EXPERIMENTS), adapters=FaultAdapters)
    _, report = judged(evidence, "00" * 32, (), TODAY, "")
    found = {one.id: one for one in report.requirements if one.id in ("FAULT-01", "FAULT-02", "FAULT-05", "FAULT-06")}
    assert {one.verdict for one in found.values()} == {Verdict.PASS}, [one.findings for one in found.values()]
    assert {finding.grade for one in found.values() for finding in one.findings} == {"asked"}
    assert report.abilities == {"faults": "asked", "recoveries": "asked"}
    assert report.certificate is not None
    assert "faults asked" in report.certificate.text
