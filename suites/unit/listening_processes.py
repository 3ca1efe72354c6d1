"""What the processes of a node listen at, and its files: everything that another user could try to reach."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def processes(folder: Path) -> dict[int, str]:
    """The programs of the node by process ID: those that name the folder, and their children."""
    found, parents = dict[int, str](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if any(f"{folder}/" in word for word in words):
                found[int(path.name)] = Path(words[0]).name
    while more := {pid: "child" for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return found


def listening(pids: Iterable[int]) -> tuple[set[int], set[str]]:
    """The TCP ports, and the unix sockets without a file, at which these processes listen."""
    ports, abstract = set[int](), set[str]()
    for pid in pids:
        links = set[str]()
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                links.add(str(path.readlink()))
        for name in ("tcp", "tcp6"):
            rows = [row.split() for row in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()]
            ports |= {int(r[1].rpartition(":")[2], 16) for r in rows if r[3] == "0A" and f"socket:[{r[9]}]" in links}
        rows = [row.split() for row in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
        abstract |= {r[7] for r in rows if len(r) > 7 and r[7].startswith("@") and f"socket:[{r[6]}]" in links}
    return ports, abstract


def files_of(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files below the folder, and those of them that are sockets."""
    files = [path for path in folder.rglob("*") if not path.is_dir()]
    return files, [path for path in files if path.is_socket()]
