from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.llama_gguf import write_gguf
from leakmeter.errors import ModelError
from leakmeter.models import resolve


def write_own(path: Path, merges: tuple[str, ...] = ("a b",)) -> dict[str, np.ndarray]:
    """A one-layer llama with a byte-level tokenizer; returns its float32 tensors."""
    pytest.importorskip("gguf")
    pytest.importorskip("transformers")
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    tokens = [*map(chr, printable), *(chr(256 + i) for i in range(256 - len(printable))), "ab", "<|end|>"]
    end = len(tokens) - 1
    keys: dict[str, Any] = {"model": "gpt2", "pre": "default", "merges": list(merges)}
    return write_gguf(path, tokens, [1] * end + [3], bos_token_id=end, eos_token_id=end, **keys)


@pytest.fixture
def own(tmp_path: Path, cache: Path) -> Path:
    write_own(tmp_path / "own.gguf")
    return tmp_path / "own.gguf"


def test_a_users_gguf_file_becomes_a_model_that_loads(
    own: Path, told: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    import transformers

    tensors = write_own(own)

    def loudness() -> tuple[int, bool]:
        return logging.getLogger("transformers").level, transformers.utils.logging.is_progress_bar_enabled()

    before = loudness()
    capfd.readouterr()
    found = resolve(str(own), notify=told.append)
    assert (capfd.readouterr(), loudness(), len(told)) == (("", ""), before, 1)
    model = transformers.AutoModelForCausalLM.from_pretrained(found.path, local_files_only=True)
    embedding = model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(embedding, tensors["token_embd"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(found.path, local_files_only=True)
    assert tokenizer.decode(tokenizer("A fact, twice.", add_special_tokens=False)["input_ids"]) == "A fact, twice."


def test_a_gguf_file_cut_short_or_with_a_tokenizer_that_does_not_fit_is_one_line(own: Path, cache: Path) -> None:
    whole = own.read_bytes()
    for n_bytes in (40, len(whole) // 2):
        own.write_bytes(whole[:n_bytes])
        with pytest.raises(ModelError, match=r"'own\.gguf' cannot be converted") as caught:
            resolve(str(own), notify=lambda line: None)
        assert "\n" not in str(caught.value)
    assert not [left for left in (cache / "models").iterdir() if left.suffix == ".tmp"]
    # The tokenizers library raises bare Exception, which no ordinary clause should catch.
    write_own(own, merges=("c d",))
    with pytest.raises(ModelError, match=r"cannot be converted: .*out of vocabulary"):
        resolve(str(own), notify=lambda line: None)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        # The number of tokens: the library that reads the file would go on behind its end until memory is full.
        (b"tokenizer.ggml.tokens\x09\x00\x00\x00\x08\x00\x00\x00", b"\xff" * 7 + b"\x00", "more than the file"),
        (b"tokenizer.ggml.token_type\x09\x00\x00\x00\x05\x00\x00\x00", b"\xff" * 7 + b"\x00", "more than the file"),
        # Sizes of a model of terabytes, whose weights would be made up.
        (b"llama.embedding_length\x04\x00\x00\x00", b"\x00\x00\x00\x40", "declares .* weights"),
        (b"llama.feed_forward_length\x04\x00\x00\x00", b"\x00\x00\x00\x40", "declares .* weights"),
        (b"llama.block_count\x04\x00\x00\x00", b"\x00\x00\x00\x40", "1,073,741,824 layers"),
        (b"llama.attention.head_count_kv\x04\x00\x00\x00", b"\x01\x00\xf5\x00", "declares .* weights"),
        (b"llama.vocab_size\x04\x00\x00\x00", b"\x00\x00\x00\x40", "declares .* weights"),
    ],
)
def test_a_forged_header_is_refused_before_it_fills_the_memory(
    own: Path, before: bytes, after: bytes, said: str
) -> None:
    content = own.read_bytes()
    at = content.index(before) + len(before)
    own.write_bytes(content[:at] + after + content[at + len(after) :])
    with pytest.raises(ModelError, match=f"'own\\.gguf' cannot be converted: .*{said}"):
        resolve(str(own), notify=lambda line: None)
