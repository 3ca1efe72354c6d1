"""Scripts as JSON: what is written of one that differs, and read again to replay it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from drahealth.suites.differential.observation import Played
from drahealth.suites.differential.script import Script
from drahealth.suites.differential.soundness import fault_of
from drahealth.suites.errors import ConfigurationError

_SCRIPT: TypeAdapter[Script] = TypeAdapter(Script)
_PLAYED: TypeAdapter[Played] = TypeAdapter(Played)


@dataclass(frozen=True, slots=True)
class Record:
    """The script, the kubelet that it was played on, what was different there, and what was seen."""

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
    """The scripts of files, numbered as they come: records, or scripts alone. Raises ConfigurationError."""
    return {number: load_script(path) for number, path in enumerate(paths)}


def load_script(path: Path) -> Script:
    """The script of one file. Raises ConfigurationError."""
    return load_record(path).script


def load_record(path: Path) -> Record:
    """What one file holds, which may be a script alone. Raises ConfigurationError."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", "name a file of a script") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is no JSON: {error}", "name a file that ci/differential wrote") from None
    record = data if isinstance(data, dict) and "script" in data else {"script": data}
    try:
        seen = None if record.get("seen") is None else _PLAYED.validate_python(record["seen"])
        differences = tuple(map(str, record.get("differences", ())))
        return Record(parse_script(json.dumps(record["script"])), str(record.get("kubernetes", "")), differences, seen)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error.message}", error.hint) from None
    except (ValidationError, TypeError):
        raise ConfigurationError(f"{path}: what was seen cannot be read", "leave it out") from None


def dump_script(script: Script) -> str:
    """The script as JSON that people can read; what is as it is by itself is left out."""
    return json.dumps(script_to_json(script), indent=1, ensure_ascii=False)


def script_to_json(script: Script) -> dict[str, Any]:
    """The same as plain data."""
    data: dict[str, Any] = _SCRIPT.dump_python(script, mode="json", exclude_defaults=True)
    steps = zip(script.steps, data.get("steps", []), strict=True)
    return {**data, "steps": [{"step": step.step, **said} for step, said in steps]}


def parse_script(text: str | bytes) -> Script:
    """The script of a JSON text. Raises ConfigurationError for what is none, or cannot be played."""
    try:
        script = _SCRIPT.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise ConfigurationError(f"no script: {where}: {first['msg']}", "take one that ci/differential wrote") from None
    if fault := fault_of(script):
        raise ConfigurationError(f"the script cannot be played: {fault}", "correct it")
    return script
