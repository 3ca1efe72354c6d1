"""etcd, the API server, the scheduler and the controller manager of one run.

etcd listens only on a unix socket in the folder of the run.
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from drahealth.suites.targets.audit import POLICY
from drahealth.suites.targets.kubelet.binaries.releases import Binaries
from drahealth.suites.targets.kubelet.node import credentials
from drahealth.suites.targets.kubelet.node.component_gates import ComponentGates
from drahealth.suites.targets.kubelet.node.layout import Layout
from drahealth.suites.targets.kubelet.node.processes import Keeper, Process

ETCD, API_SERVER = "etcd", "kube-apiserver"

_ETCD_URL = "unix://localhost:1"  # etcd reads it as the socket `localhost:1` in its working folder
_ETCD_PEER_URL = "unix://localhost:2"  # there is no peer; but etcd listens for one, without asking who it is


DELETION_ONLY: Mapping[str, Sequence[str]] = MappingProxyType(
    {credentials.CONTROLLER_MANAGER: ("--controllers=namespace-controller,garbage-collector-controller",)}
)
"""A controller manager that completes deletions: of namespaces, and of objects without an owner."""


class ControlPlane:
    """etcd, the API server and its `clients`, each with its flags; the API server can be restarted with other feature
    gates.

    `audit` logs the writes of Pod statuses. `flags` are more flags of the API server.
    """

    def __init__(
        self,
        keeper: Keeper,
        binaries: Binaries,
        layout: Layout,
        port: int,
        *,
        clients: Mapping[str, Sequence[str]],
        audit: bool = False,
        flags: Sequence[str] = (),
    ) -> None:
        self.processes: dict[str, Process] = {}
        self._clients = clients
        self._keeper = keeper
        self._binaries = binaries
        self._layout = layout
        self._port = port
        self._audit = audit
        self._flags = flags

    async def start(self, gates: Mapping[str, bool]) -> None:
        """Starts etcd and the API server, without waiting until it is ready."""
        await self._spawn(ETCD, self._binaries.etcd, etcd_flags(self._layout))
        if self._audit:
            self._layout.audit_policy.write_text(json.dumps(POLICY), encoding="utf-8")
        await self.start_api_server(gates)

    async def stop_api_server(self) -> None:
        """Kills the API server: a graceful end would wait a minute for its watches.

        Kills its clients too: their retries back off for long (C-02).
        """
        names = [name for name in self.processes if name != ETCD]
        await asyncio.gather(*(self.processes.pop(name).end() for name in names))

    async def start_api_server(self, gates: Mapping[str, bool]) -> None:
        """Starts the API server with these gates, without waiting until it is ready."""
        flags = [
            *api_server_flags(self._layout, self._port, gates),
            *self._flags,
            *(audit_flags(self._layout) if self._audit else ()),
        ]
        await self._spawn(API_SERVER, self._binaries.kube_apiserver, flags)

    async def start_client(self, name: str) -> None:
        """Starts a client, which is not running.

        The API server must be ready, or nearly: a controller manager asks it only once a second, and ends after ten.
        """
        programs = {
            credentials.SCHEDULER: self._binaries.kube_scheduler,
            credentials.CONTROLLER_MANAGER: self._binaries.kube_controller_manager,
        }
        await self._spawn(name, programs[name], [*client_flags(self._layout, name), *self._clients[name]])

    async def start_clients(self) -> None:
        """Starts all clients that do not run."""
        for name in self._clients:
            if name not in self.processes:
                await self.start_client(name)

    async def _spawn(self, name: str, program: Path, flags: Sequence[str]) -> None:
        argv, env = [str(program), *flags], environment(self._layout)
        self.processes[name] = await self._keeper.spawn(name, argv, env, self._layout.log(name))


def environment(layout: Layout) -> Mapping[str, str]:
    """The environment of the components: very little of that of this process."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(layout.root), "TMPDIR": str(layout.temporary_dir)}


def etcd_flags(layout: Layout) -> list[str]:
    """The flags of a single member that does not wait for an election, and whose data need not survive the machine."""
    return [
        f"--data-dir={layout.etcd_dir}",
        f"--listen-client-urls={_ETCD_URL}",
        "--advertise-client-urls=http://localhost:2379",
        f"--listen-peer-urls={_ETCD_PEER_URL}",
        "--unsafe-no-fsync",
        "--heartbeat-interval=10",
        "--election-timeout=50",
    ]


def api_server_flags(layout: Layout, port: int, gates: Mapping[str, bool]) -> list[str]:
    """The flags of an API server on loopback with static tokens."""
    return [
        f"--etcd-servers={_ETCD_URL}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # with a loopback address any other is refused
        f"--tls-cert-file={layout.server_certificate}",
        f"--tls-private-key-file={layout.server_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.service_account_key}",
        f"--service-account-signing-key-file={layout.service_account_key}",
        f"--token-auth-file={layout.tokens}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged",
        "--disable-admission-plugins=ServiceAccount",
        *gate_flags(gates),
    ]


def certificate_flags(layout: Layout) -> list[str]:
    """The flags of an API server that accepts client certificates, and has one for the kubelet.

    It reaches the kubelet by the name of its node: the addresses of a Node cannot be loopback addresses.
    """
    certificate, key = layout.kubelet_client_certificate
    return [
        f"--client-ca-file={layout.client_authority}",
        f"--kubelet-client-certificate={certificate}",
        f"--kubelet-client-key={key}",
        "--kubelet-preferred-address-types=Hostname",
    ]


def audit_flags(layout: Layout) -> list[str]:
    """The flags of an API server that logs the writes of Pod statuses, each before its answer."""
    return [
        f"--audit-policy-file={layout.audit_policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-mode=blocking",
    ]


def client_flags(layout: Layout, name: str) -> list[str]:
    """The flags of a scheduler or controller manager without a server and without leader election."""
    return [f"--kubeconfig={layout.kubeconfig(name)}", "--leader-elect=false", "--secure-port=0"]


def clients_with(gates: ComponentGates) -> dict[str, list[str]]:
    """The clients of the API server in a whole control plane, each with its flags."""
    return {
        credentials.SCHEDULER: gate_flags(gates.scheduler),
        credentials.CONTROLLER_MANAGER: gate_flags(gates.controller_manager),
    }


def gate_flags(gates: Mapping[str, bool]) -> list[str]:
    """The --feature-gates flag, if there are gates."""
    words = ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
    return [f"--feature-gates={words}"] if gates else []
