"""What requests send."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from leakmeter.errors import DataError


async def json_object(request: Request) -> dict[str, Any]:
    """The body of a request.

    Raises:
        DataError: it is no JSON object.
    """
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise DataError("the body has to be a JSON object") from None
    if not isinstance(given, dict):
        raise DataError("the body has to be a JSON object")
    return given
