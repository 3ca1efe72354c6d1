"""What all unit tests share."""

import pytest
from hypothesis import settings

settings.register_profile("drahealth", deadline=None)  # a machine that is busy makes an example slow, not wrong
settings.load_profile("drahealth")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Everything here is asyncio."""
    return "asyncio"
