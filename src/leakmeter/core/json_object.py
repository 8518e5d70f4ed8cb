"""What JSON and TOML hold, as it is read and written. What travels further than that is a dataclass."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
