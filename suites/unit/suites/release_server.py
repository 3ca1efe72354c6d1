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
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            member = tarfile.TarInfo(f"{name}/etcd")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        self.files[f"/v{version}/{name}.tar.gz"] = archive.getvalue()
        sums = f"{hashlib.sha256(archive.getvalue()).hexdigest()}  {name}.tar.gz\n"
        self.files[f"/v{version}/SHA256SUMS"] = sums.encode()

    def __enter__(self) -> "ReleaseServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


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
        """Says nothing."""
