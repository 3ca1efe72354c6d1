"""Reports as JSON values, and back. Pure."""

from functools import cache
from typing import TYPE_CHECKING, Any

from drahealth.suites.certifying.report.document import FORMAT, Report

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def plain(report: Report) -> dict[str, Any]:
    """The report as JSON values."""
    found: dict[str, Any] = _adapter().dump_python(report, mode="json")
    return found


def parse_report(data: bytes) -> Report:
    """The report of a file's content. Raises ValueError, with the place of the first mistake."""
    from pydantic import ValidationError

    try:
        return _adapter().validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            raise ValueError("not a JSON file") from None
        where = ".".join(map(str, first["loc"]))
        if where in ("", "format"):
            raise ValueError(f"not a report of format {FORMAT}") from None
        what = "is missing" if first["type"] == "missing" else "has an invalid value"
        raise ValueError(f"key {where} {what}") from None


@cache
def _adapter() -> "TypeAdapter[Report]":
    from pydantic import TypeAdapter

    return TypeAdapter(Report)
