"""The API server in memory, served over HTTPS when a kubeconfig is needed."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, DEVICE_CLASSES, NAMESPACES, NODES, PODS
from drahealth.fakes.cluster.api_server.gates import KEP_RULES, MESSAGE_GATE, STATUS_GATE, FieldRules
from drahealth.fakes.cluster.api_server.object_files import ObjectFiles
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.manager.gates import Gates
from drahealth.manager.profile import Profile
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, StatusWritten, ignore
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.api_servers.root_directory import objects_folder, port_in
from drahealth.suites.targets.api_servers.server import ALL_ON

if TYPE_CHECKING:
    from drahealth.fakes.cluster.api_server.credentials import Credentials
    from drahealth.fakes.cluster.api_server.http import HttpApi

KEPT = (NAMESPACES, NODES, DEVICE_CLASSES, CLAIM_TEMPLATES, CLAIMS, PODS)
"""Kinds whose objects outlive the server; a kubelet that starts removes its ResourceSlices anyway (W-30)."""


class MemoryApiServer:
    """Implements `server.ApiServerProcess`.

    With `keep` its objects, port and credentials are in the root directory, for the next one. Raises HarnessError if
    these cannot be read. `observe` gets an event for each write of a Pod status.
    """

    def __init__(
        self,
        root: Path,
        *,
        rules: FieldRules = KEP_RULES,
        gates: Gates = ALL_ON,
        clock: Clock | None = None,
        keep: bool = False,
        observe: Observe = ignore,
    ) -> None:
        self._path = root / "kubeconfig"
        self._keep = keep
        self._http: HttpApi | None = None
        try:
            files = ObjectFiles(objects_folder(root), KEPT) if keep else None
            self.api = ApiServer(rules=rules, gates=_by_name(gates), clock=clock, files=files, observe=observe)
        except OSError as error:
            raise HarnessError(f"the objects in {objects_folder(root)} cannot be read: {error.strerror}") from error

    async def kubeconfig(self) -> Path:
        if self._http is None:
            from drahealth.fakes.cluster.api_server.http import HttpApi  # only here: it brings a web server

            self._http = HttpApi(self.api, self._kept_credentials() if self._keep else None)
            try:
                await self._http.start(port_in(self._path) if self._keep else 0)
            except OSError:
                await self._http.start()
            try:
                self._http.write_kubeconfig(self._path)
            except OSError as error:
                raise HarnessError(f"{self._path} cannot be written: {error.strerror}") from error
        return self._path

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

    def status_writes(self, namespace: str) -> list[StatusWritten]:
        return []

    async def down(self) -> None:
        self.api.down()

    async def up(self) -> None:
        self.api.up()

    async def restart(self, gates: Gates) -> None:
        self.api.restart(_by_name(gates))

    def _kept_credentials(self) -> "Credentials":
        from drahealth.fakes.cluster.api_server.credentials import Credentials

        path = self._path.with_name("credentials.json")
        try:
            return Credentials.kept_in(path)
        except OSError as error:
            raise HarnessError(f"{path} cannot be read or written: {error.strerror}") from error


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
