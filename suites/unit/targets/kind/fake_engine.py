"""A `docker` and a `kind` that are scripts on a PATH of their own, with containers that are files of a folder."""

import json
import os
from pathlib import Path

_DOCKER = """#!/bin/sh
PATH=/usr/bin:/bin
cd {root}
echo "docker $*" >> calls
if [ -f refusal ] && [ "$1" != --version ]; then cat refusal >&2; exit 1; fi
case "$1 $2" in
"--version "*) cat version ;;
"version "*) echo 28.0.0 ;;
"ps -a") ls containers ;;
"ps "*) ;;
"info "*) echo AB:CD ;;
"run --rm") cat image-version ;;
"image inspect") grep -x "$5" images || {{ echo "Error: No such image: $5" >&2; exit 1; }} ;;
"container inspect") shift 2; printf '['; comma=
    for id; do printf '%s' "$comma"; cat "containers/$id"; comma=,; done; printf ']' ;;
"rm -f") shift 3; for id; do grep -qsx "$id" stuck || rm -f "containers/$id"; done ;;
*) echo "docker: '$1' is not a docker command." >&2; exit 1 ;;
esac
"""
_KIND = """#!/bin/sh
PATH=/usr/bin:/bin
cd {root}
echo "kind $*" >> calls
case "$1 $2" in
"version "*) cat kind-version ;;
"create cluster") cat > config; cat kind-says >&2; exit "$(cat kind-exits)" ;;
"delete cluster") [ -f kind-is-broken ] && exit 1; grep -l "\\"$4\\"" containers/* | xargs rm -f ;;
"get clusters") echo one; echo two ;;
esac
"""


class FakeEngine:
    """Its folder, what was asked of it, and what it is to say."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "bin"
        for folder in (self.path, root / "containers"):
            folder.mkdir(parents=True)
        self.says("kind-version", "kind v0.33.0 go1.26.8 linux/amd64")
        self.says("version", "Docker version 28.0.0")
        self.says("images", "here:1")
        self.says("kind-exits", "0")
        self.says("kind-says", "")
        self.install("docker", _DOCKER)
        self.install("kind", _KIND)

    def install(self, name: str, script: str) -> None:
        """A program, instead of the one of that name."""
        (self.path / name).write_text(script.format(root=self.root))
        (self.path / name).chmod(0o755)

    def uninstall(self, name: str) -> None:
        """Takes a program away."""
        (self.path / name).unlink()

    def waits(self, program: str, verb: str) -> None:
        """Makes a program wait at this command until it may continue."""
        os.mkfifo(self.root / "waits")
        self.before(program, f'[ "$1" = {verb} ] && /bin/cat {self.root}/waits')

    def before(self, program: str, line: str) -> None:
        """What a program does before all else, as a line of shell with whole paths."""
        path = self.path / program
        first, _, script = path.read_text().partition("\n")
        path.write_text(f"{first}\n{line}\n{script}")

    @property
    def is_waiting(self) -> bool:
        """Whether it has not been told to go on."""
        return (self.root / "waits").is_fifo()

    def goes_on(self) -> None:
        """Tells it to, once and for all."""
        (self.root / "waits").write_bytes(b"")
        (self.root / "waits").unlink()

    def says(self, file: str, text: str) -> None:
        """What a script has to say."""
        (self.root / file).write_text(f"{text}\n")

    def add(self, cluster: str, *mounts: str, role: str = "control-plane", name: str = "") -> None:
        """A container with the labels of a kind node."""
        name = name or f"{cluster}-{role}"
        labels = {"io.x-k8s.kind.cluster": cluster, "io.x-k8s.kind.role": role}
        found = {
            "Id": name,
            "Name": f"/{name}",
            "Created": "2026-01-01T00:00:00Z",
            "State": {"Status": "running"},
            "Config": {"Labels": labels},
            "Mounts": [{"Destination": mount} for mount in ("/var", *mounts)],
        }
        (self.root / "containers" / name).write_text(json.dumps(found))

    @property
    def containers(self) -> list[str]:
        """Those that are left."""
        return sorted(path.name for path in (self.root / "containers").iterdir())

    @property
    def calls(self) -> list[str]:
        """Every call so far."""
        return (self.root / "calls").read_text().splitlines()
