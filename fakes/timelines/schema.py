"""The JSON Schemas of timelines and inventories, for editors: what a file may say, as far as a schema can tell."""

from typing import Any

from pydantic import BaseModel

from drahealth.fakes.inventory.model import InventoryFile
from drahealth.fakes.timelines.model import VERBS, Timeline

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def timeline_schema() -> dict[str, Any]:
    """Of a `*.timeline.yaml`; verbs come with what they mean."""
    schema = _schema(Timeline)
    step = schema["$defs"]["Step"]
    for verb, meaning in VERBS.items():
        step["properties"][verb]["description"] = meaning
    return schema


def inventory_schema() -> dict[str, Any]:
    """Of an inventory."""
    return _schema(InventoryFile)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"$schema": DIALECT, **model.model_json_schema(by_alias=True)}
