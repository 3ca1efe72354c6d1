"""One file over HTTP: streamed to disk, resumed after a cut, with its SHA-256."""

import hashlib
from pathlib import Path
from typing import BinaryIO

import requests
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_fixed

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kubelet.binaries.sources import Unavailable
from drahealth.suites.targets.progress import Progress

_CHUNK = 1 << 16
_TIMEOUT = (3.0, 9.0)
"""Seconds to connect, and seconds without data after which a connection counts as cut."""


class NotThere(Exception):
    """The server does not have the file."""


def read_text(url: str) -> str:
    """The text of a small file. Raises NotThere or Unavailable."""
    try:
        with requests.get(url, timeout=_TIMEOUT) as answer:
            _judge(answer)
            return answer.text
    except requests.RequestException as error:
        raise _unavailable(url, error) from error


class Transfer:
    """Fetches `url` into `target`; fails after `attempts` connections in a row without new data."""

    def __init__(self, url: str, target: Path, *, attempts: int = 3, pause: float = 1.0) -> None:
        self.url = url
        self.target = target
        self.attempts = attempts
        self.pause = pause
        self._digest = hashlib.sha256()
        self._done = 0

    def run(self, sha256: str, stage: str, progress: Progress) -> None:
        """Raises NotThere, Unavailable if the connection fails, HarnessError for a wrong checksum."""
        self._fetch(stage, progress)
        if self._digest.hexdigest() != sha256:
            raise HarnessError(
                f"{self.url} does not match its published checksum "
                f"(expected {sha256[:12]}..., received {self._digest.hexdigest()[:12]}...)",
                "try again; if it repeats, a proxy may change the file",
            )

    def _fetch(self, stage: str, progress: Progress) -> None:
        failures, before = 0, 0

        def is_last(_: RetryCallState) -> bool:
            nonlocal failures, before
            failures, before = (1 if self._done > before else failures + 1), self._done
            return failures >= self.attempts

        retrying = Retrying(
            retry=retry_if_exception_type(requests.RequestException),
            wait=wait_fixed(self.pause),
            stop=is_last,
            before_sleep=lambda _: progress(f"{stage}: the connection was cut, retrying", self._done),
            reraise=True,
        )
        try:
            with self.target.open("wb") as file:
                retrying(self._stream, file, stage, progress)
        except requests.RequestException as error:
            raise _unavailable(self.url, error) from error

    def _stream(self, file: BinaryIO, stage: str, progress: Progress) -> None:
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={self._done}-"}
        with requests.get(self.url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
            _judge(answer)
            if answer.status_code != requests.codes.partial_content:
                self._start_over(file)
            length = answer.headers.get("Content-Length")
            total = self._done + int(length) if length else None
            for chunk in answer.iter_content(_CHUNK):
                file.write(chunk)
                self._digest.update(chunk)
                self._done += len(chunk)
                progress(stage, self._done, total)

    def _start_over(self, file: BinaryIO) -> None:
        file.seek(0)
        file.truncate()
        self._digest = hashlib.sha256()
        self._done = 0


def _judge(answer: requests.Response) -> None:
    if answer.status_code in (404, 410):
        raise NotThere(answer.url)
    if answer.status_code in (401, 403, 407, 416):
        raise Unavailable(f"{_host(answer.url)} refuses with status {answer.status_code}")
    answer.raise_for_status()


def _unavailable(url: str, error: requests.RequestException) -> Unavailable:
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return Unavailable(f"{_host(url)} answers with status {error.response.status_code}")
    return Unavailable(f"the connection to {_host(url)} was lost ({_cause(error)})")


def _cause(error: BaseException) -> str:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error) or type(error).__name__


def _host(url: str) -> str:
    return url.split("/")[2]
