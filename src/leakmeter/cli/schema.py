"""`leakmeter runs schema`."""

from __future__ import annotations

import json
from importlib import resources

from leakmeter.commands import output
from leakmeter.core import record, registry


def schema(instrument: str | None = None, /) -> None:
    """Print the JSON schema of an instrument's --json output; without a name, list the instruments.

    Args:
        instrument: its name, or doctor.
    """
    if instrument is None:
        output.print_plain("".join(f"{name}\n" for name in registry.all_printed()))
        return
    shipped = resources.files(registry.printed(instrument)[1]) / "schema.json"
    output.print_plain(shipped.read_text(encoding="utf-8") if shipped.is_file() else schema_of(instrument))


def schema_of(instrument: str) -> str:
    """An instrument's schema as JSON, made of its class of results."""
    kind, _ = registry.printed(instrument)
    json_schema = record.schema(kind, kind.schema)
    json_schema["required"] = ["schema", *json_schema["required"]]
    json_schema["properties"] = {"schema": {"const": kind.schema}, **json_schema["properties"]}
    return json.dumps(json_schema, ensure_ascii=False, indent=1) + "\n"
