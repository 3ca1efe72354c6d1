"""The logger of a web server. Malformed HTTP causes one warning instead of a traceback for each request."""

import logging
import sys
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.api_server.rejection_log import RejectionLog


class ServerLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs what aiohttp logs. aiohttp answers malformed HTTP with 400 itself."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger(__name__))
        self._rejections = RejectionLog()

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        given = options.get("exc_info")
        error = given if isinstance(given, BaseException) else sys.exception() if given else None
        if isinstance(error, HttpProcessingError):
            text = " ".join(error.message.split())
            refusal = ApiError(400, "BadRequest", f"malformed HTTP: {text}")
            self._rejections.rejected("an unknown client", "a request", refusal)
        else:
            super().log(level, msg, *args, **options)
