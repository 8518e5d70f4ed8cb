"""`python -m leakmeter`: the command line of this very Python."""

from __future__ import annotations

from leakmeter.cli import main

main()
