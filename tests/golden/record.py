"""Record what the commands say: `PYTHONPATH=tests python tests/golden/record.py FOLDER MODEL [NAME…]`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from helpers.golden_commands import MODEL, TOY, without_volatile, words_of, write_data

if __name__ == "__main__":
    folder, model, *names = sys.argv[1:]
    place = Path(folder).absolute() / model
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as where:
        write_data(Path(where))
        env = {**os.environ, "LEAKMETER_CONFIG": f"{where}/config", "LEAKMETER_SCORES": "off"}
        for name in names or (TOY if model == "toy" else MODEL):
            words = [sys.executable, "-m", "leakmeter", *words_of(name, model, Path(where) / f"runs-{name}")]
            done = subprocess.run(words, cwd=where, env=env, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.stderr.write(f"{name}: {done.returncode} {done.stderr}")
                continue
            said = [without_volatile(json.loads(line)) for line in done.stdout.splitlines()]
            (place / f"{name}.json").write_text(json.dumps(said, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
