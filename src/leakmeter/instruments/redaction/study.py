"""Studies of it: of what responses leak of contexts."""

from leakmeter.studies.contexts import KIND

__all__ = ["KIND"]
