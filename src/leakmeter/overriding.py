"""The mark of a method that takes the place of a base class's.

mypy refuses a mark without such a method of a base class, as after a renaming, and a method in its place without mark.
`typing` has it from Python 3.12 on. `typing_extensions` has it for all, and takes milliseconds to import, also where
nothing but help is asked for; at run time the mark does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["override"]

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):
        """Mark a method."""
        return method
