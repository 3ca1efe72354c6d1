"""What all unit tests share."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Everything here is asyncio."""
    return "asyncio"
