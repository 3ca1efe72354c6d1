"""The official Python client, synchronous, on a real node: the same tests as on the reference."""

from drahealth.suites.unit.clients.test_official_client import *  # noqa: F403
