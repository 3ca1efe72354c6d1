"""Lines of files that hold records: JSON objects with a time, in UTF-8. Errors are ValueError."""

import io
import json
import math
from typing import Any

from drahealth.proto.quoting import one_line


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object in a line."""
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    return data


def seconds_in(data: dict[str, Any], key: str) -> float:
    """The value of the key, a finite number of seconds."""
    value = data.get(key)
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
            return value
    except OverflowError:
        pass
    raise ValueError(f"`{key}` must be a number of seconds, got {one_line(repr(value))}")


def write_line(file: io.FileIO, data: bytes) -> None:
    """Writes all of it, also if the system takes it in parts. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
