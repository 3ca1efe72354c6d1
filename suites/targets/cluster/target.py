"""A node of a cluster that others made, and the run on it, from checked options."""

import asyncio
import copy
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.pods import on_nodes
from drahealth.manager.profile import Profile
from drahealth.manager.releases import patch_level
from drahealth.proto.events import Observe
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.cluster.facts import Facts, connected, facts_of
from drahealth.suites.targets.cluster.installation import (
    ClusterMaker,
    labels_of,
    permissions,
    remove_left,
    restart_kubelet,
)
from drahealth.suites.targets.cluster.options import ClusterOptions
from drahealth.suites.targets.option import Values
from drahealth.suites.targets.permissions import Permission, missing_permissions
from drahealth.suites.targets.pods.deployment import PULL_SECRET, SECRETS, pull_secret
from drahealth.suites.targets.pods.target import ClusterLock, Joined, PodTarget, PreparedNodes, Provider, Shared
from drahealth.suites.targets.progress import Progress
from drahealth.suites.targets.registry import Check, JudgedNode, Launch
from drahealth.suites.targets.target import Placement
from drahealth.suites.targets.versions import judged_as, missing_in, newer_than_known


class ClusterTarget(PodTarget[PreparedNodes]):
    """Implements `target.Target`."""

    def __init__(
        self, provider: Provider[PreparedNodes], profile: Profile, options: ClusterOptions, *, worker: int = 0
    ) -> None:
        super().__init__(provider, profile, worker=worker)
        self._options = options
        self._others: dict[str, ClusterTarget] = {}
        self._node_lock: ClusterLock | None = None
        self.kubelet_dir = Path(options.kubelet_dir)

    @property
    def placement(self) -> Placement:
        """Each Pod runs on the node, with the tolerations of the user and the credentials for its image."""
        o = self._options
        pod: dict[str, Any] = {"affinity": on_nodes([self.node_name])} if self._prepared else {}
        pod |= {"tolerations": [dict(one) for one in o.tolerations]} if o.tolerations else {}
        pod |= {"imagePullSecrets": [{"name": PULL_SECRET}]} if o.pull_config else {}
        return Placement(f"{o.namespace}-", pod, labels_of(o.namespace))

    async def prepare_namespace(self, namespace: str) -> None:
        await super().prepare_namespace(namespace)
        if self._options.pull_config:
            config = self._options.docker_config(self._started.image)
            await self._api.create(SECRETS, pull_secret(namespace, config))

    async def enter(self, *, alone: bool, observe: Observe) -> None:
        """Where the kubelet confuses device plugins with equal ids (D-05), one scenario runs on a node at a time."""
        await super().enter(alone=alone, observe=observe)
        if not self.profile.owner_by_resource:
            folder = Path(self._started.folder) / self.node_name
            folder.mkdir(exist_ok=True)
            self._node_lock = ClusterLock(folder)
            await self._node_lock.enter(alone=True)

    async def leave(self) -> None:
        if self._node_lock:
            self._node_lock.leave()
        await super().leave()

    async def restart_kubelet(self) -> None:
        await restart_kubelet(self._api, self._options, self.node_name, self.windows["restart"])

    async def stop_kubelet(self, *, orderly: bool = False) -> None:
        raise _cannot("stop kubelets")

    async def start_kubelet(self) -> None:
        """Nothing: it was not stopped."""

    async def set_gates(self, *, api_server: bool, kubelet: bool, dra: bool = True, messages: bool = True) -> None:
        raise _cannot("set feature gates")

    async def stop_api_server(self) -> None:
        raise _cannot("stop the API server")

    async def start_api_server(self) -> None:
        """Nothing: it was not stopped."""

    async def log_tail(self) -> str:
        return ""

    async def on(self, node: str, profile: Profile) -> "ClusterTarget":
        """The same target, on this node. It must be started; `stop` of this one ends it, too."""
        if node not in self._others:
            other = copy.copy(self)
            other.profile, other._others = profile, {}
            other.settle(node)
            self._others[node] = other
        return self._others[node]

    def check(self) -> None:
        """With several judged nodes, a lost one fails only its own scenarios; the run continues until all are lost."""
        lost = [one._host for one in self._others.values() if one._host and one._host.problem]
        if not self._others or len(lost) == len(self._started.pods):
            super().check()

    async def stop(self) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(super().stop)
            for other in self._others.values():
                stack.push_async_callback(other.leave_node)


def _cannot(what: str) -> HarnessError:
    return HarnessError(f"the cluster target cannot {what}", "use the kind target")


# A run on a cluster: its options, and what the cluster is.

_WHY = {
    Capability.RESTART_KUBELET: "only --restart-kubelet-command can restart the kubelets of this cluster",
}


@dataclass(frozen=True, slots=True)
class ClusterConfiguration:
    """Implements `definition.Configuration`."""

    options: ClusterOptions
    facts: Facts
    profile: Profile

    @classmethod
    def of(cls, values: Values) -> "ClusterConfiguration":
        """From the options of a run. Asks the cluster. Raises ConfigurationError, HarnessError."""
        options = ClusterOptions.of(values)
        if not options.has_image:
            raise ConfigurationError(
                "the nodes of the cluster need an image of the fake driver",
                "pass --driver-image, --push-to or --load-command",
            )
        facts = asyncio.run(_facts(options))
        return cls(options, facts, facts.profile(each=options.judges_each_node))

    @property
    def missing(self) -> Mapping[Capability, str]:
        return self._missing_with(*self.facts.kubelets.values())

    def _missing_with(self, *kubelets: str) -> Mapping[Capability, str]:
        releases = {self.facts.kubernetes, *kubelets}
        found = {why: text for one in releases for why, text in missing_in(one, self.facts.gates).items()}
        return found if self.options.restart_command else {**found, **_WHY}

    @property
    def server_profile(self) -> Profile:
        return judged_as(self.facts.kubernetes)

    @property
    def judged_nodes(self) -> Mapping[str, JudgedNode]:
        if not self.options.judges_each_node:
            return {}
        kubelets = sorted(self.facts.kubelets.items())
        return {name: JudgedNode(it, judged_as(it), self._missing_with(it)) for name, it in kubelets}

    @property
    def is_own_kubelet(self) -> bool:
        return True

    @property
    def kubelets(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.facts.kubelets.values()), key=patch_level))

    @property
    def title(self) -> str:
        nodes = len(self.facts.kubelets)
        found = f"the cluster {self.facts.server}, Kubernetes {self.facts.kubernetes}, {nodes} node{'s'[: nodes != 1]}"
        return f"{found}{newer_than_known(*self.kubelets)}"

    @property
    def flags(self) -> Mapping[str, str]:
        return self.options.texts

    def make(self, launch: Launch) -> ClusterTarget:
        if launch.shared:
            nodes = Joined(launch.shared, PreparedNodes)
            return ClusterTarget(nodes, self.profile, self.options, worker=launch.shared.worker)
        return ClusterTarget(self._maker(launch), self.profile, self.options)

    def share(self, launch: Launch) -> Shared[PreparedNodes]:
        """The driver's pods and the Lease: workers of a distributed run use one installation."""
        return Shared(self._maker(launch))

    def _maker(self, launch: Launch) -> ClusterMaker:
        return ClusterMaker(self.options, self.facts, launch.progress)


async def _facts(options: ClusterOptions) -> Facts:
    async with connected(options) as client:
        return await facts_of(client, options)


# What a run would do, and whether it may.


def examine(values: Values, progress: Progress) -> Iterator[Check]:
    """The checks of `drahealth doctor`."""
    options = ClusterOptions.of(values)
    progress("Asking the cluster")
    try:
        facts, missing = asyncio.run(_asked(options))
        profile = facts.profile(each=True)
    except HarnessError as error:
        yield Check("cluster", False, error.message, error.hint)
        return
    yield Check("cluster", True, f"{facts.server}, Kubernetes {facts.kubernetes}, behaves as {profile.name}")
    nodes = ", ".join(f"{name} ({version})" for name, version in sorted(facts.kubelets.items()))
    yield Check("nodes", True, nodes)
    named = ", ".join(f"{verb} {one.resource}" for one, verb in missing)
    yield Check("permissions", not missing, named or "all", "they are missing" if missing else "")


def plan(options: ClusterOptions) -> tuple[list[str], bool]:
    """What a run creates, and the permissions that it needs, as lines for people; and whether the user has them.

    Changes nothing. Raises ConfigurationError, HarnessError.
    """
    facts, missing = asyncio.run(_asked(options))
    ns, profile = options.namespace, facts.profile(each=options.judges_each_node)
    lines = [
        f"cluster: {facts.server}, Kubernetes {facts.kubernetes}, behaves as {profile.name}",
        *(f"node {name}: kubelet {version}" for name, version in sorted(facts.kubelets.items())),
        *(f"node {name} is not used: {why}" for name, why in sorted(facts.unused.items())),
        "",
        "A run creates, and removes at its end:",
        f"- the Namespace {ns} with a Lease, a ServiceAccount{', a Secret' if options.pull_config else ''} and the",
        "  DaemonSet of the fake driver. Its Pods are root without capabilities, and mount the folders of sockets of",
        f"  {options.kubelet_dir} and /var/run/cdi. They publish ResourceSlices",
        f"- the ClusterRole and ClusterRoleBinding {ns}:drahealth-driver, and the ValidatingAdmissionPolicy and its",
        f"  binding drahealth-driver.{ns}: the driver may write ResourceSlices only of its own node",
        f"- for each scenario a Namespace {ns}-XXXXXXXX with Pods, claims and ReplicaSets, and a DeviceClass for each",
        "  driver in it",
        "A Node keeps the extended resources of fake device plugins, with 0 allocatable, until its kubelet restarts.",
        "",
        "Permissions, in all namespaces:",
    ]
    for one in permissions(options):
        lacks = [verb for verb in one.verbs if (one, verb) in missing]
        group = one.kind.api_version.rpartition("/")[0]
        mark = "no" if lacks and not one.optional else "--" if lacks else "ok"
        where = f" of {group}" if group else ""
        needed = " (optional: without it, waits are as for a syncFrequency of 60 s)" if one.optional else ""
        lines.append(f"{mark}  {', '.join(one.verbs)} {one.resource}{where}{needed}")
    lines += [] if options.has_image else ["", "A run also needs --driver-image, --push-to or --load-command."]
    return lines, all(one.optional for one, _ in missing)


async def _asked(options: ClusterOptions) -> tuple[Facts, list[tuple[Permission, str]]]:
    """The facts, and the permissions that are missing, each with the verb."""
    async with connected(options) as client:
        facts = await facts_of(client, options)
        try:
            return facts, await missing_permissions(client, permissions(options))
        except ApiError as error:
            raise HarnessError(f"cannot ask for permissions: {error}", "check the rights in the kubeconfig") from error


def clean(options: ClusterOptions, progress: Progress) -> list[str]:
    """Removes what runs that were killed have left. Returns the names of their namespaces. Raises HarnessError."""

    async def removed() -> list[str]:
        async with connected(options) as client:
            try:
                return await remove_left(client, progress)
            except ApiError as error:
                raise HarnessError(f"{client.connection.host} answered: {error}", "check the kubeconfig") from error

    return asyncio.run(removed())
