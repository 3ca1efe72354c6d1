"""The official Python client, asynchronous, on a real node: the same tests as on the reference."""

from drahealth.suites.unit.clients.test_official_client_aio import *  # noqa: F403
