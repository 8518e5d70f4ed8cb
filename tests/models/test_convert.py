from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from leakmeter.errors import ModelError
from leakmeter.models import resolve

N_EMBED, N_HIDDEN, N_HEADS = 32, 64, 2


def write_tiny_llama(path: Path, merges: tuple[str, ...] = ("a b",)) -> dict[str, np.ndarray]:
    """A one-layer llama with a byte-level tokenizer in a GGUF file; returns its float32 tensors."""
    gguf = pytest.importorskip("gguf")
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    tokens = [*map(chr, printable), *(chr(256 + i) for i in range(len(rest))), "ab", "<|end|>"]
    rng = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), N_EMBED), "output_norm": (N_EMBED,), "blk.0.attn_norm": (N_EMBED,)}
    shapes |= {"blk.0.ffn_norm": (N_EMBED,), "blk.0.ffn_down": (N_EMBED, N_HIDDEN)}
    shapes |= {f"blk.0.attn_{name}": (N_EMBED, N_EMBED) for name in ("q", "k", "v", "output")}
    shapes |= {f"blk.0.ffn_{name}": (N_HIDDEN, N_EMBED) for name in ("gate", "up")}
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(N_EMBED)
    writer.add_block_count(1)
    writer.add_feed_forward_length(N_HIDDEN)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(N_EMBED // N_HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - 1) + [3])
    writer.add_token_merges(list(merges))
    writer.add_bos_token_id(len(tokens) - 1)
    writer.add_eos_token_id(len(tokens) - 1)
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def test_a_users_gguf_file_becomes_a_model_that_loads(
    tmp_path: Path, cache: Path, told: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    path = tmp_path / "own.gguf"
    tensors = write_tiny_llama(path)
    level, bars = logging.getLogger("transformers").level, transformers.utils.logging.is_progress_bar_enabled()
    capfd.readouterr()
    found = resolve(str(path), notify=told.append)
    assert capfd.readouterr() == ("", "")
    assert (logging.getLogger("transformers").level, transformers.utils.logging.is_progress_bar_enabled()) == (
        level,
        bars,
    )
    assert len(told) == 1
    model = transformers.AutoModelForCausalLM.from_pretrained(found.path, local_files_only=True)
    embedding = model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(embedding, tensors["token_embd"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(found.path, local_files_only=True)
    assert tokenizer.decode(tokenizer("A fact, twice.", add_special_tokens=False)["input_ids"]) == "A fact, twice."


def test_a_gguf_file_cut_short_is_one_line(tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("transformers")
    path = tmp_path / "own.gguf"
    write_tiny_llama(path)
    for n_bytes in (40, path.stat().st_size // 2):
        path.write_bytes(path.read_bytes()[:n_bytes])
        with pytest.raises(ModelError, match=r"'own\.gguf' cannot be converted") as caught:
            resolve(str(path), notify=lambda line: None)
        assert "\n" not in str(caught.value)
        write_tiny_llama(path)
    assert not [left for left in (cache / "models").iterdir() if left.suffix == ".tmp"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        # The number of tokens: the library that reads the file would go on behind its end until memory is full.
        (b"tokenizer.ggml.tokens\x09\x00\x00\x00\x08\x00\x00\x00", b"\xff" * 7 + b"\x00", "more than the file"),
        (b"tokenizer.ggml.token_type\x09\x00\x00\x00\x05\x00\x00\x00", b"\xff" * 7 + b"\x00", "more than the file"),
        # Sizes of a model of terabytes, whose weights would be made up.
        (b"llama.embedding_length\x04\x00\x00\x00", b"\x00\x00\x00\x40", "a model of .* weights"),
        (b"llama.feed_forward_length\x04\x00\x00\x00", b"\x00\x00\x00\x40", "a model of .* weights"),
        (b"llama.block_count\x04\x00\x00\x00", b"\x00\x00\x00\x40", "1,073,741,824 layers"),
        (b"llama.attention.head_count_kv\x04\x00\x00\x00", b"\x01\x00\xf5\x00", "a model of .* weights"),
        (b"llama.vocab_size\x04\x00\x00\x00", b"\x00\x00\x00\x40", "a model of .* weights"),
    ],
    ids=["strings", "numbers", "width", "hidden width", "layers", "heads", "vocabulary"],
)
def test_a_forged_header_is_refused_before_it_fills_the_memory(
    tmp_path: Path, cache: Path, before: bytes, after: bytes, said: str
) -> None:
    pytest.importorskip("transformers")
    path = tmp_path / "own.gguf"
    write_tiny_llama(path)
    content = path.read_bytes()
    at = content.index(before) + len(before)
    path.write_bytes(content[:at] + after + content[at + len(after) :])
    with pytest.raises(ModelError, match=f"'own\\.gguf' cannot be converted: .*{said}"):
        resolve(str(path), notify=lambda line: None)


def test_a_tokenizer_that_does_not_fit_is_one_line(tmp_path: Path, cache: Path) -> None:
    """The tokenizers library raises bare Exception, which no ordinary clause should catch."""
    pytest.importorskip("transformers")
    path = tmp_path / "own.gguf"
    write_tiny_llama(path, merges=("c d",))
    with pytest.raises(ModelError, match=r"cannot be converted: .*out of vocabulary"):
        resolve(str(path), notify=lambda line: None)
