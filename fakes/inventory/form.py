"""A string of a certain form, with an error that says the form in words."""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function


@dataclass(frozen=True, slots=True)
class Form:
    """An annotation of a `str`: it must match `pattern`; otherwise the error is `sentence`, and the value."""

    pattern: str
    sentence: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "pattern": self.pattern}

    def _checked(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"{self.sentence}, got {text[:80]!r}")
        return text
