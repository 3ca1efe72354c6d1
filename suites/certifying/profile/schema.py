"""The JSON Schema of driver profiles, for editors: what a file may say, as far as a schema can tell."""

from typing import Any

from drahealth.fakes.timelines.schema import DIALECT
from drahealth.suites.certifying.profile.model import DriverProfile


def driver_profile_schema() -> dict[str, Any]:
    """Of a driver profile."""
    return {"$schema": DIALECT, **DriverProfile.model_json_schema(by_alias=True)}
