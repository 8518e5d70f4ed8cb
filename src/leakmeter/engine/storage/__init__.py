"""Runs as files: a directory's parts and specification, what a part holds, the catalogue, verification, export."""
