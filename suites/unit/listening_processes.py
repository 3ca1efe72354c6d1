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
        with suppress(FileNotFoundError, ProcessLookupError):  # ended meanwhile
            links = _links(Path(f"/proc/{pid}/fd"))
            tables = {name: _rows(Path(f"/proc/{pid}/net/{name}")) for name in ("tcp", "tcp6", "unix")}
            tcp = [*tables["tcp"], *tables["tcp6"]]
            ports |= {int(r[1].rpartition(":")[2], 16) for r in tcp if r[3] == "0A" and f"socket:[{r[9]}]" in links}
            named = [r for r in tables["unix"] if len(r) > 7 and f"socket:[{r[6]}]" in links]
            abstract |= {r[7] for r in named if r[7].startswith("@")}
    return ports, abstract


def _links(folder: Path) -> set[str]:
    """The targets of the open files of a process."""
    found = set[str]()
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(str(path.readlink()))
    return found


def _rows(table: Path) -> list[list[str]]:
    return [row.split() for row in table.read_text().splitlines()[1:]]


def files_of(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files below the folder, and those of them that are sockets."""
    files = [path for path in folder.rglob("*") if not path.is_dir()]
    return files, [path for path in files if path.is_socket()]
