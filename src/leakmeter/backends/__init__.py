"""Back ends: what turns a chunk of requests into scores."""
