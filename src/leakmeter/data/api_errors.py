"""What an API or its client wrote in the place of an answer.

A response that is taken for one is not measured, so that a wrong guess would hide a leak: only a text that the
assistant says counts, and only where the whole of it is an error in a form that a provider writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from leakmeter.core.case import Case
from leakmeter.data.mapping import parsed_cell

_LONGEST: Final = 20_000
"""Characters; an error with all headers of its response has about a thousand."""
_TYPES: Final = frozenset(
    (
        # OpenAI, and servers that speak like it
        *("invalid_request_error", "authentication_error", "permission_error", "not_found_error", "rate_limit_error"),
        *("server_error", "insufficient_quota", "rate_limit_exceeded", "context_length_exceeded", "invalid_api_key"),
        *("model_not_found", "content_filter", "tokens", "requests", "billing_hard_limit_reached"),
        *("BadRequestError", "NotFoundError", "RateLimitError", "InternalServerError", "DeploymentNotFound"),
        # Anthropic
        *("request_too_large", "api_error", "overloaded_error", "timeout_error", "billing_error"),
        # Google
        *("INVALID_ARGUMENT", "FAILED_PRECONDITION", "PERMISSION_DENIED", "NOT_FOUND", "RESOURCE_EXHAUSTED"),
        *("INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "UNAUTHENTICATED"),
    )
)
"""What providers call an error's kind."""
_FIELDS: Final = frozenset(("message", "type", "code", "param", "status", "details", "metadata", "innererror"))
_OUTER_FIELDS: Final = frozenset(("error", "type", "code", "status", "request_id", "user_id", "object"))
_STATUS = re.compile(r"[45]\d\d")
_CODED = re.compile(r"Error code: [45]\d\d(?:\s-\s(?P<error>\{.*\}))?", re.DOTALL)
"""How the client of OpenAI, and of Anthropic, prints an error."""
_OF_STREAM: Final = ("data:", "event:", "id:", "retry:", ":")
_BRACKETED = re.compile(r"\[ERROR: (?P<error>.*)\]", re.DOTALL)
_PAGE: Final = r"https://(?:openrouter\.ai|(?:platform\.)?openai\.com)/[/a-z-]*"
_NAMED = re.compile(
    r"(?:Insufficient credits|Rate limit exceeded|Too many requests|Request timed out|Connection error|"
    r"Internal server error|Service unavailable|Bad gateway|Overloaded|"
    r"You exceeded your current quota, please check your plan and billing details|"
    r"Your credit balance is too low to access the Anthropic API)"
    # What providers write behind it, word for word.
    rf"(?:\. (?:Add more|Add more (?:at|using) {_PAGE}|For more information on this error, read the docs: {_PAGE}|"
    r"Please go to Plans & Billing to upgrade or purchase credits))?\.?",
    re.IGNORECASE,
)
"""Messages of an error in brackets that stand there alone."""
_REPEATED = re.compile(r"\]|\s[45]\d\d \{'error': \{'message': [^\]]*\]?")
"""What stands behind an error in brackets that was written twice, in JSON and as Python prints it, with headers. What
a program kept in a memory may be cut off."""


def is_event_stream(text: str) -> bool:
    """Whether a text is the body of a streamed response: events with an object each, and nothing else.

    >>> is_event_stream('data: {"delta": "An"}\\n\\ndata: {"delta": "na"}\\n\\ndata: [DONE]')
    True
    """
    if not text.lstrip().startswith(_OF_STREAM):
        return False
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    n_data = sum(line.startswith("data:") and line[5:].lstrip().startswith(("{", "[DONE]")) for line in lines)
    return n_data > 1 and all(line.startswith(_OF_STREAM) for line in lines)


def is_api_error(case: Case) -> bool:
    """Whether a response is what an API or its client wrote where it had no answer. Arguments of a call, such as of
    `log_event({"type": "error", …})`, never are: the model wrote them."""
    if case.response is None or case.begun is not None or case.channel == "tool":
        return False
    text = case.response.strip()
    return len(text) <= _LONGEST and (_is_error(text) or _is_bracketed(text))


def _is_error(text: str) -> bool:
    if text.startswith("{"):
        return _is_error_object(parsed_cell(text))
    coded = _CODED.fullmatch(text)
    return coded is not None and (coded["error"] is None or _is_error_object(parsed_cell(coded["error"])))


def _is_bracketed(text: str) -> bool:
    """Whether it is an error in brackets: one of any other form, a known message, or a message and an object that says
    it again."""
    if (whole := _BRACKETED.fullmatch(text)) and (_NAMED.fullmatch(whole["error"]) or _is_error(whole["error"])):
        return True
    if not text.startswith("[ERROR: "):
        return False
    message, brace, _ = text.removeprefix("[ERROR: ").partition(' {"error"')
    if not brace:
        return False
    with suppress(ValueError, RecursionError):
        held, end = json.JSONDecoder().raw_decode(text, len("[ERROR: ") + len(message) + 1)
        is_same = _is_error_object(held) and held["error"]["message"] == message
        return is_same and _REPEATED.fullmatch(text, end) is not None
    return False


def _is_error_object(value: object) -> bool:
    """Whether a record has nothing but an error with a message, and a status of HTTP or a kind that a provider has."""
    if not isinstance(value, Mapping) or not set(value) <= _OUTER_FIELDS:
        return False
    error = value.get("error")
    if not isinstance(error, Mapping) or not set(error) <= _FIELDS or not isinstance(error.get("message"), str):
        return False
    kinds = [error.get(name) for name in ("type", "code", "status")]
    return any(
        str(kind) in _TYPES or _STATUS.fullmatch(str(kind)) is not None for kind in kinds if isinstance(kind, str | int)
    )
