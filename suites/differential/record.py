"""Scripts as JSON files: written for scripts that differ, read to replay them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from drahealth.fakes.program.error_wording import plain
from drahealth.suites.differential.observation import Played
from drahealth.suites.differential.script import Script
from drahealth.suites.differential.validation import find_error
from drahealth.suites.errors import ConfigurationError

_SCRIPT: TypeAdapter[Script] = TypeAdapter(Script)
_PLAYED: TypeAdapter[Played] = TypeAdapter(Played)


@dataclass(frozen=True, slots=True)
class Record:
    """A script, the release of the kubelet, the differences, and the observations on the kubelet."""

    script: Script
    kubernetes: str
    differences: tuple[str, ...] = ()
    seen: Played | None = None

    def dump(self) -> str:
        """As JSON."""
        data = {
            "kubernetes": self.kubernetes,
            "differences": list(self.differences),
            "script": script_to_json(self.script),
            "seen": None if self.seen is None else _PLAYED.dump_python(self.seen, mode="json"),
        }
        return json.dumps(data, indent=1, ensure_ascii=False)


def load_scripts(paths: Sequence[Path]) -> dict[int, Script]:
    """Load the scripts of files, numbered from 0. A file holds a record or a script. Raises ConfigurationError."""
    return {number: load_script(path) for number, path in enumerate(paths)}


def load_script(path: Path) -> Script:
    """Load the script of one file. Raises ConfigurationError."""
    return load_record(path).script


def load_record(path: Path) -> Record:
    """Load a record, or a script as a record. Raises ConfigurationError."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", "pass a file with a script") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: invalid JSON: {error}", "pass a file of ci/differential") from None
    record = data if isinstance(data, dict) and "script" in data else {"script": data}
    try:
        seen = None if record.get("seen") is None else _PLAYED.validate_python(record["seen"])
        differences = tuple(map(str, record.get("differences", ())))
        return Record(parse_script(json.dumps(record["script"])), str(record.get("kubernetes", "")), differences, seen)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error.message}", error.hint) from None
    except (ValidationError, TypeError):
        raise ConfigurationError(f"{path}: invalid field `seen` or `differences`", "remove them") from None


def script_to_json(script: Script) -> dict[str, Any]:
    """The script as plain data, without default values."""
    data: dict[str, Any] = _SCRIPT.dump_python(script, mode="json", exclude_defaults=True)
    steps = zip(script.steps, data.get("steps", []), strict=True)
    return {**data, "steps": [{"step": step.step, **fields} for step, fields in steps]}


def parse_script(text: str | bytes) -> Script:
    """Parse and validate a script. Raises ConfigurationError."""
    try:
        script = _SCRIPT.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise ConfigurationError(
            f"invalid script: {where}: {plain(first['msg'])}", "see docs/differential.md"
        ) from None
    if problem := find_error(script):
        raise ConfigurationError(f"invalid script: {problem}", "correct the script")
    return script
