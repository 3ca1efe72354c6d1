"""The API server in memory, served over HTTP when a kubeconfig is needed."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from drahealth.fakes.cluster.api_server.gates import KEP_RULES, MESSAGE_GATE, STATUS_GATE, FieldRules
from drahealth.fakes.cluster.api_server.object_files import ObjectFiles
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.manager.gates import Gates
from drahealth.manager.profile import Profile
from drahealth.proto.clock import Clock
from drahealth.suites.targets.api_servers.server import ALL_ON

if TYPE_CHECKING:
    from drahealth.fakes.cluster.api_server.http import HttpApi


class MemoryApiServer:
    """Implements `server.ApiServerProcess`. With `files` its objects outlive it; raises OSError if these fail."""

    def __init__(
        self,
        root: Path,
        *,
        rules: FieldRules = KEP_RULES,
        gates: Gates = ALL_ON,
        clock: Clock | None = None,
        files: ObjectFiles | None = None,
    ) -> None:
        self.api = ApiServer(rules=rules, gates=_by_name(gates), clock=clock, files=files)
        self._root = root
        self._http: HttpApi | None = None

    async def kubeconfig(self) -> Path:
        path = self._root / "kubeconfig"
        if self._http is None:
            from drahealth.fakes.cluster.api_server.http import HttpApi  # only here: it brings a web server

            self._http = HttpApi(self.api)
            await self._http.start()
            self._http.write_kubeconfig(path)
        return path

    async def start(self) -> None:
        """Nothing: it has no process."""

    async def stop(self) -> None:
        http, self._http = self._http, None
        if http:
            await http.stop()

    async def wait(self) -> None:
        await asyncio.Event().wait()

    def check(self) -> None:
        """Nothing: it has no process."""

    async def down(self) -> None:
        self.api.down()

    async def up(self) -> None:
        self.api.up()

    async def restart(self, gates: Gates) -> None:
        self.api.restart(_by_name(gates))


def field_rules(profile: Profile) -> FieldRules:
    """What the API servers of a profile do with `allocatedResourcesStatus`."""
    return FieldRules(
        filters_reads=profile.api_filters_reads,
        keeps_what_was_there=profile.api_keeps_stored,
        has_pod_field=profile.pod_level,
        names_every_request=profile.whole_claim == "an entry for each request",
    )


def _by_name(gates: Gates) -> dict[str, bool]:
    return {STATUS_GATE: gates.resource_health_status, MESSAGE_GATE: gates.resource_health_status_message}
