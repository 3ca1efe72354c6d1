"""Expectations of errors by their fields, not by their words."""

import grpc
import pytest

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.program.user_files import FileError


def rpc_error(code: grpc.StatusCode) -> pytest.RaisesExc[grpc.aio.AioRpcError]:
    """A gRPC call fails with this code."""
    return pytest.raises(grpc.aio.AioRpcError, check=lambda error: error.code() is code)


def api_error(status: int, reason: str) -> pytest.RaisesExc[ApiError]:
    """An API server rejects a request with this HTTP status and reason."""
    return pytest.raises(ApiError, check=lambda error: (error.status, error.reason) == (status, reason))


def file_error(*places: tuple[int, str]) -> pytest.RaisesExc[FileError]:
    """A file is rejected, with errors at exactly these lines and keys."""
    return pytest.raises(FileError, check=lambda error: [(p.line, p.where) for p in error.problems] == [*places])
