"""An event of a driver, in its JSON form, as a sentence for people."""

from collections.abc import Mapping
from typing import Any

from drahealth.proto.quoting import printable


def words_of(line: Mapping[str, Any]) -> str:
    """What happened, after the driver's name."""
    left_out = f" ({line['left_out_before']} earlier lines were skipped)" if line.get("left_out_before") else ""
    return printable(f"{line['driver']}: {_what(line)}{left_out}")


def _what(line: Mapping[str, Any]) -> str:
    match line["event"]:
        case "change":
            return f"{line['device']} is reported as {line['health']}{_quoted(line['message'])}"
        case "unlisted":
            return f"{line['device']} is no longer listed"
        case "report":
            kind = "a complete report" if line["complete"] else "a partial report"
            return f"{kind} of {line['devices']} devices on {line['stream']}"
        case "command":
            args = " ".join(
                f"{name}={value}" for name, value in line["args"].items() if value not in ("", False, None, [])
            )
            return f"command {line['command']} {args}".rstrip()
        case "stream-opened":
            return f"stream {line['stream']} opened ({line['health_api']})"
        case "stream-closed":
            return f"stream {line['stream']} closed: {line['why']}"
        case "registered":
            which = f" as instance {line['instance']}" if line.get("instance") else ""
            return f"registered{which}" if line["ok"] else f"registration refused{which}: {line['error']}"
        case "prepared":
            return f"claim {line['claim_uid']} prepared: {', '.join(line['devices'])}"
        case "unprepared":
            return f"claim {line['claim_uid']} unprepared"
        case event:
            more = ", ".join(
                f"{key} {value}"
                for key, value in line.items()
                if key not in ("event", "driver") and value not in ("", None)
            )
            return f"{event}{': ' if more else ''}{more}"


def _quoted(message: str) -> str:
    return f" '{message}'" if message else ""
