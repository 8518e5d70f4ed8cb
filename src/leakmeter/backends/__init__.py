"""Back ends: what turns a chunk of requests into scores."""

from leakmeter.core.spinning import limit_spinning

limit_spinning()
