"""Makes the site of a run on kind, or prepares the cluster that is reused; and takes it down."""

import secrets
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from drahealth.fakes.clients.kube_client import KubeClient
from drahealth.suites.binaries.progress import Progress
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.kind import ownership
from drahealth.suites.kind.configuration import cluster_name, compose
from drahealth.suites.kind.engine import Container, find_engine
from drahealth.suites.kind.marker import run_id_of
from drahealth.suites.kind.node_control import KindNodes
from drahealth.suites.kind.options import KindOptions
from drahealth.suites.kind.program import Kind, find_kind, node_image, other_release
from drahealth.suites.kind.records import Claim, records
from drahealth.suites.kind.site import Site, seconds
from drahealth.suites.local.run_directory import RunDirectory
from drahealth.suites.pods.deployment import deploy, remove
from drahealth.suites.pods.image import ensure_image

_KUBECONFIG = "kubeconfig"


class SiteMaker:
    """One site of a release, with these feature gates. `failed` says at the end whether a scenario has failed."""

    def __init__(
        self,
        options: KindOptions,
        kubernetes: str,
        gates: Mapping[str, bool],
        progress: Progress,
        failed: Callable[[], bool],
    ) -> None:
        self._options = options
        self._kubernetes = kubernetes
        self._gates = gates
        self._progress = progress
        self._failed = failed
        self._is_made = False
        self._ends = AsyncExitStack()

    async def up(self) -> Site:
        """The site, ready. Raises HarnessError; then nothing of it is left."""
        try:
            return await self._up()
        except BaseException:
            await self._ends.aclose()
            raise

    async def down(self) -> None:
        """Leaves the machine as it was, but for a cluster that is to be kept."""
        await self._ends.aclose()

    async def _up(self) -> Site:
        engine = await find_engine()
        kind = await find_kind(engine)
        await ownership.sweep(engine, kind, self._progress)
        name, folder = await (self._reused(kind) if self._options.reuse else self._made(kind))
        nodes = sorted((node for node in await engine.nodes() if node.cluster == name), key=lambda node: node.name)
        client = await KubeClient.from_kubeconfig(folder / _KUBECONFIG)
        self._ends.push_async_callback(client.close)
        await self._check_release(client, name)
        return await self._furnished(kind, client, folder, nodes)

    async def _made(self, kind: Kind) -> tuple[str, Path]:
        """A cluster of ours, and the folder for what goes with it."""
        o = self._options
        user = _text(o.config) if o.config else None
        name = o.name or (cluster_name(user) if user else None) or f"drahealth-{secrets.token_hex(3)}"
        if name in await kind.names():
            raise HarnessError(f"There is a kind cluster {name} already", f"choose another --name, or --reuse {name}")
        claim = Claim.make(name, kind.engine.identity)
        self._ends.push_async_callback(self._end, kind, claim)
        config = compose(user, nodes=o.nodes, run_id=claim.run_id, gates=self._gates)
        image = node_image(self._kubernetes, o.node_image)
        self._progress(f"Making the cluster {name} with {image}")
        await kind.create(name, image, config, claim.folder / _KUBECONFIG, on_line=self._progress)
        self._is_made = True
        return name, claim.folder

    async def _end(self, kind: Kind, claim: Claim) -> None:
        """Removes our cluster, unless it was made and shall be kept."""
        keep = self._options.keep == "always" or (self._options.keep == "failed" and self._failed())
        if keep and self._is_made:
            claim.keep()
            claim.release()
            self._progress(
                f"Kept the cluster {claim.cluster}: --reuse {claim.cluster} runs on it, clean --kept removes it"
            )
        else:
            await ownership.remove(claim, kind.engine, kind, self._progress)

    async def _reused(self, kind: Kind) -> tuple[str, Path]:
        """A cluster that is there; runs of ours that use it at the same time share a folder."""
        name = self._options.reuse or ""
        if name not in (names := await kind.names()):
            found = f"there are {', '.join(names)}" if names else "there are none"
            raise HarnessError(f"There is no kind cluster {name} to reuse", f"{found}; leave --reuse out to make one")
        folder = await self._folder_of(name, kind)
        kubeconfig = folder / _KUBECONFIG
        kubeconfig.touch(0o600)
        kubeconfig.write_text(await kind.kubeconfig(name))
        return name, folder

    async def _folder_of(self, name: str, kind: Kind) -> Path:
        for node in await kind.engine.nodes():
            if node.cluster == name and (run_id := run_id_of(node.mounts)) and run_id in {r.run_id for r in records()}:
                claim = Claim.attach(run_id)
                self._ends.callback(claim.release)
                return claim.folder
        run = RunDirectory.create()  # somebody else's cluster
        self._ends.callback(run.remove)
        return run.path

    async def _check_release(self, client: KubeClient, name: str) -> None:
        served = str((await client.connection.call("GET", "/version"))["gitVersion"])
        image = self._options.node_image or (f"of {name}" if self._options.reuse else node_image(self._kubernetes))
        if error := other_release(self._kubernetes, served, image):
            raise error

    async def _furnished(self, kind: Kind, client: KubeClient, folder: Path, nodes: list[Container]) -> Site:
        engine = kind.engine
        names = [node.name for node in nodes]
        control_plane = next(node.name for node in nodes if node.role == "control-plane")
        cluster = nodes[0].cluster
        o = self._options
        image = await ensure_image(engine, named=o.driver_image, base=o.driver_base, progress=self._progress)
        self._progress(f"Loading {image} into {cluster}")
        await kind.load(image, cluster, self._progress)
        if o.reuse:
            self._ends.push_async_callback(remove, client)
            kubelets = KindNodes(engine, control_plane, names, client)
            self._ends.push_async_callback(kubelets.restore)
            await kubelets.set_gates(self._gates)
        pods = await deploy(client, image, self._progress)
        proxied = await client.connection.call("GET", f"/api/v1/nodes/{control_plane}/proxy/configz")
        return Site(
            cluster=cluster,
            engine=engine.name,
            folder=str(folder),
            kubeconfig=str(folder / _KUBECONFIG),
            control_plane=control_plane,
            nodes=tuple(names),
            pods={node: pod for node, pod in pods.items() if len(names) == 1 or node != control_plane},
            image=image,
            sync_frequency=seconds(proxied["kubeletconfig"]["syncFrequency"]),
        )


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{file} is no text: byte {error.start + 1} is not UTF-8", "name a YAML file"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}", "name a kind configuration") from None
