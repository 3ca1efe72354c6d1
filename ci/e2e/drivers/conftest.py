"""Tests of the real Go drivers that variables such as FILEHEALTH name (`ci/step drivers` runs them)."""

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"
