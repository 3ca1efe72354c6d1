"""A release server on loopback whose files can be wrong, missing or cut short."""

import hashlib
import io
import re
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

KUBELET = b"kubelet_" * 10 * 8192


class ReleaseServer:
    """Serves `files` by path; `cuts` says how many answers of a path end after `cut_at` bytes of what is left."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cuts: dict[str, int] = {}
        self.cut_at = 1 << 17
        self.asked: list[tuple[str, str]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"release_server": self}))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """The base of all paths."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def add_program(self, folder: str, name: str, content: bytes) -> None:
        """A program and its checksum file."""
        self.files[f"{folder}/{name}"] = content
        self.files[f"{folder}/{name}.sha256"] = hashlib.sha256(content).hexdigest().encode()

    def add_etcd(self, version: str, platform: str, content: bytes) -> None:
        """An archive as the etcd project publishes it."""
        name = f"etcd-v{version}-{platform}"
        packed = _archive(f"{name}/etcd", content)
        self.files[f"/v{version}/{name}.tar.gz"] = packed
        self.files[f"/v{version}/SHA256SUMS"] = _sum(packed, f"{name}.tar.gz")

    def add_helm(self, version: str, platform: str, content: bytes) -> None:
        """An archive as the Helm project publishes it."""
        name = f"helm-v{version}-{platform}.tar.gz"
        packed = _archive(f"{platform}/helm", content)
        self.files[f"/{name}"] = packed
        self.files[f"/{name}.sha256sum"] = _sum(packed, name)

    def __enter__(self) -> "ReleaseServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _archive(member: str, content: bytes) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        entry = tarfile.TarInfo(member)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def _sum(packed: bytes, name: str) -> bytes:
    return f"{hashlib.sha256(packed).hexdigest()}  {name}\n".encode()


class _Handler(BaseHTTPRequestHandler):
    release_server: ClassVar[ReleaseServer]

    def do_GET(self) -> None:
        server = self.release_server
        server.asked.append((self.path, self.headers.get("Range", "")))
        content = server.files.get(self.path)
        if content is None:
            return self.send_error(404)
        offset = int((re.findall(r"bytes=(\d+)-", self.headers.get("Range", "")) or [0])[0])
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(content) - offset))
        self.end_headers()
        left = content[offset:]
        if server.cuts.get(self.path, 0) > 0:
            server.cuts[self.path] -= 1
            left = left[: server.cut_at]
        self.wfile.write(left)
        return None

    def log_message(self, *_: Any) -> None:
        """No log."""
