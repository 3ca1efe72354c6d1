"""Tests of the real Go drivers that FILEHEALTH and DRA_TEST_DRIVER name (`ci/check-drivers` runs them)."""

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"
