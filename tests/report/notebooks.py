"""The example notebooks, run from their first cell to their last, with their outputs kept.

PYTHONPATH=tests python -m report.notebooks examples
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

MODEL = 'MODEL = "smollm2-135m"'


def executed(path: Path, *, model: str | None = None) -> Any:
    """A notebook with the outputs of its cells, measured with another model where one is named."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    first = cells[0].source
    assert MODEL in first
    if model is not None:
        cells[0].source = first.replace(MODEL, f'MODEL = "{model}"')
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    for cell in cells:
        cell.metadata.pop("execution", None)  # when it was run
        # Warnings of other libraries have paths of this machine.
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    cells[0].source = first
    return notebook


if __name__ == "__main__":
    import nbformat

    for path in sorted(Path(sys.argv[1]).glob("*.ipynb")):
        nbformat.write(executed(path), path)
