"""A new instrument takes few files: its parts, and what the house has to be told of it."""

from __future__ import annotations

from pathlib import Path

from tools.count_ideas import SOURCE, files_of_an_instrument, is_generated

MOST = 6


def test_a_new_instrument_takes_few_files() -> None:
    files = files_of_an_instrument()
    assert len(files) <= MOST
    assert {"__init__.py", "measure.py", "result.py", "report.py", "command.py"} <= {path.name for path in files}
    assert {path.name for path in files if is_generated(path)} == {"public.py"}
    assert [path for path in files if not path.is_relative_to(SOURCE / "instruments")] == []


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_what_names_every_instrument_is_counted(tmp_path: Path) -> None:
    instrument = 'class One:\n    name = "{}"\n\n\nINSTRUMENT = One()\n'
    written(
        tmp_path,
        {
            "instruments/__init__.py": "",
            "instruments/size/__init__.py": instrument.format("size"),
            "instruments/size/measure.py": "",
            "instruments/size/words.py": "",
            "instruments/colours/__init__.py": instrument.format("colour"),
            "instruments/colours/measure.py": "",
            "instruments/shared.py": "",
            "public.py": '"""LEAKMETER_SNAPSHOTS"""\nimport instruments.size\nfrom instruments import colours\n',
            "table.py": "KNOWN = ['size', 'colour']\n",
            "prose.py": '"""The size and colour of things."""\nSIZE = "size of a thing"\n',
            "product.py": "from instruments.size import INSTRUMENT\n",
        },
    )
    files = files_of_an_instrument(tmp_path)
    parts = ["__init__.py", "measure.py"]
    assert files == [
        *(tmp_path / "instruments" / "colours" / name for name in parts),
        *(tmp_path / name for name in ("public.py", "table.py")),
    ]
    assert [path.name for path in files if is_generated(path)] == ["public.py"]
