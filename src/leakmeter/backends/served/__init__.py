"""Models behind an HTTP server, one dialect a module."""
