"""etcd and the control plane of one run, and the feature gates of each component."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from drahealth.fakes.hints import near
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.processes.sandbox import RunningSandbox
from drahealth.suites.targets.audit import POLICY
from drahealth.suites.targets.kubelet.binaries import Binaries
from drahealth.suites.targets.kubelet.layout import CONTROLLER_MANAGER, SCHEDULER, Layout
from drahealth.suites.targets.kubelet.processes import Process

# The feature gates of each component of a node.
#
# A component does not start with a gate that it does not know. So each gets only those that its --help lists, and
# stable or deprecated ones, such as DynamicResourceAllocation, which no help lists. All components except the kubelet
# check their gates before they print their version. The kubelet knows those stable gates that the scheduler knows.

_LIMIT = 60.0
"""Seconds for a program to print its help or its version."""
_ERROR = re.compile(r'err="([^"]+)"')
_UNKNOWN = "unrecognized feature gate"
_GATE = re.compile(r"\b([A-Z]\w*)=true\|false\b")
"""A gate in the help of --feature-gates, such as `kube:AllAlpha=true|false (ALPHA - default=false)`."""


@dataclass(frozen=True, slots=True)
class ComponentGates:
    """The feature gates that each component gets."""

    api_server: Mapping[str, bool] = field(default_factory=dict)
    kubelet: Mapping[str, bool] = field(default_factory=dict)
    scheduler: Mapping[str, bool] = field(default_factory=dict)
    controller_manager: Mapping[str, bool] = field(default_factory=dict)


def gates_by_component(binaries: Binaries, gates: Mapping[str, bool]) -> ComponentGates:
    """For each component those of the gates that it knows.

    Raises ConfigurationError for a gate that no component knows or that has another fixed value, HarnessError if a
    program cannot print its help.
    """
    programs = (binaries.kube_apiserver, binaries.kubelet, binaries.kube_scheduler, binaries.kube_controller_manager)
    known = [gates_in(_help_of(program)) for program in programs]
    every = frozenset[str]().union(*known)
    for name, on in gates.items():
        if all(known) and name not in every:
            accepting = _accepting(binaries, name, on, every)
            known = [names | {name} if accepts else names for names, accepts in zip(known, accepting, strict=True)]
    return ComponentGates(*(_chosen(gates, names) for names in known))


def gates_in(text: str) -> frozenset[str]:
    """The feature gates that the help of a component lists."""
    return frozenset(_GATE.findall(text))


def _accepting(binaries: Binaries, name: str, on: bool, listed: Set[str]) -> tuple[bool, bool, bool, bool]:
    """Whether API server, kubelet, scheduler and controller manager accept a gate that no help lists."""
    programs = (binaries.kube_apiserver, binaries.kube_scheduler, binaries.kube_controller_manager)
    errors = [_error_with(program, name, on) for program in programs]
    if all(errors):
        if reason := next((error for error in errors if _UNKNOWN not in error), ""):
            raise ConfigurationError(f"Kubernetes {binaries.version}: {reason}", f"remove the feature gate {name}")
        hint = near(name, sorted(listed))
        raise ConfigurationError(f"Kubernetes {binaries.version} has no feature gate {name!r}", hint)
    api_server, scheduler, controller_manager = (not error for error in errors)
    return api_server, scheduler, scheduler, controller_manager


def _error_with(program: Path, name: str, on: bool) -> str:
    """The error of the program with this gate; empty if it accepts the gate."""
    command = [str(program), f"--feature-gates={name}={str(on).lower()}", "--version"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_LIMIT)
    except (OSError, subprocess.SubprocessError) as error:
        raise HarnessError(f"{program} --version failed: {error}") from None
    found = _ERROR.search(done.stderr)
    return "" if done.returncode == 0 else found[1] if found else f"{program.name} ended with {done.returncode}"


def _chosen(gates: Mapping[str, bool], known: Set[str]) -> dict[str, bool]:
    """All gates for a component that lists none: it reports those that it does not know."""
    return {name: on for name, on in gates.items() if name in known or not known}


def _help_of(program: Path) -> str:
    try:
        return subprocess.run([program, "--help"], check=True, capture_output=True, text=True, timeout=_LIMIT).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise HarnessError(f"{program} --help failed: {error}") from None


# etcd, the API server, the scheduler and the controller manager of one run.
#
# etcd listens only on a unix socket in the folder of the run.

ETCD, API_SERVER = "etcd", "kube-apiserver"

_ETCD_URL = "unix://localhost:1"  # etcd reads it as the socket `localhost:1` in its working folder
_ETCD_PEER_URL = "unix://localhost:2"  # there is no peer; but etcd listens for one, without asking who it is


DELETION_ONLY: Mapping[str, Sequence[str]] = MappingProxyType(
    {CONTROLLER_MANAGER: ("--controllers=namespace-controller,garbage-collector-controller",)}
)
"""A controller manager that completes deletions: of namespaces, and of objects without an owner."""


class ControlPlane:
    """etcd, the API server and its `clients`, each with its flags; the API server can be restarted with other feature
    gates.

    `audit` logs the writes of Pod statuses. `flags` are more flags of the API server, `variables` of the environment of
    all programs.
    """

    def __init__(
        self,
        sandbox: RunningSandbox,
        binaries: Binaries,
        layout: Layout,
        port: int,
        *,
        clients: Mapping[str, Sequence[str]],
        audit: bool = False,
        flags: Sequence[str] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.processes: dict[str, Process] = {}
        self._clients = clients
        self._sandbox = sandbox
        self._binaries = binaries
        self._layout = layout
        self._port = port
        self._audit = audit
        self._flags = flags
        self._variables = variables

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
            SCHEDULER: self._binaries.kube_scheduler,
            CONTROLLER_MANAGER: self._binaries.kube_controller_manager,
        }
        await self._spawn(name, programs[name], [*client_flags(self._layout, name), *self._clients[name]])

    async def start_clients(self) -> None:
        """Starts all clients that do not run."""
        for name in self._clients:
            if name not in self.processes:
                await self.start_client(name)

    async def _spawn(self, name: str, program: Path, flags: Sequence[str]) -> None:
        argv, env = [str(program), *flags], {**environment(self._layout), **self._variables}
        root, log = self._layout.root, self._layout.log(name)
        self.processes[name] = await Process.start(self._sandbox, name, argv, env, root, log)


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


_UNLIMITED = ("--kube-api-qps=10000", "--kube-api-burst=10000")
"""The flags of a scheduler or controller manager that does not limit its own requests. By default each controller sends
20 requests a second, and the scheduler 50: a thousand Pods with claims from templates then take two minutes."""
FLEET_API_SERVER_FLAGS = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",)
"""No new node gets the taint of a node that is not Ready: hollow nodes are Ready from the start. The controller manager
still taints nodes that are not Ready."""


FLEET_VARIABLES: Mapping[str, str] = MappingProxyType({"GOGC": "50"})
"""By default a program written in Go grows to twice what it uses before it collects garbage; this is 1.5 times."""


def fleet_clients(gates: ComponentGates) -> dict[str, list[str]]:
    """The clients of a control plane with thousands of nodes. Only kubelets read what the TTL controller writes."""
    clients = {name: [*flags, *_UNLIMITED] for name, flags in clients_with(gates).items()}
    clients[CONTROLLER_MANAGER].append("--controllers=*,-ttl-controller")
    return clients


def clients_with(gates: ComponentGates) -> dict[str, list[str]]:
    """The clients of the API server in a whole control plane, each with its flags."""
    return {
        SCHEDULER: gate_flags(gates.scheduler),
        CONTROLLER_MANAGER: gate_flags(gates.controller_manager),
    }


def gate_flags(gates: Mapping[str, bool]) -> list[str]:
    """The --feature-gates flag, if there are gates."""
    words = ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
    return [f"--feature-gates={words}"] if gates else []
