"""Converted tokenizers give the ids that llama.cpp gives."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers.examples import few
from helpers.llama_gguf import write_gguf
from helpers.places import TESTS
from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.errors import ModelError
from leakmeter.models import DEFAULT_MODEL, resolve
from leakmeter.models.gguf_tokenizer import PRE_TOKENIZERS, TokenizerHeader, as_llama_cpp

CONTROL, USER_DEFINED, BYTE = 3, 4, 6
WORDS = """
    0 1 12 345 6789 10000000 ½ ² ٣ ① Ⅷ 3.14 1,000 2024-01-02 . , ! ? ... … - -- — ( ) [ ] { } ' ` $
    € % + = < > ^ ~ | / _ __ @ # & * :// � 's 'S 't 're 'VE 'll 'LL 'd 'ſ ’s Hello the WORLD
    camelCase McDonald éa École é naïve ÄÖ straße İ ǅ Привет МИР αβγ ΑΒ שלום مرحبا نَصّ नमस्ते ไทย
    你好 漢字 かな カナ 한국어 ㄱ 🙂 🇩🇪 👍🏽 ❤️ 𐍈 a b I x1 1a foo_bar a.b@c.org <b> </s> <|im_end|> <|mark|>
    <｜mark｜> <think>
"""
ATOMS = (
    *WORDS.split(),
    *("+1 555-010-7788", " ", "  ", "   ", "     ", "\n", "\n\n", "\r\n", "\t", " \n", "\xa0"),
    *("\u3000", "\u2003", "\u200b", " \u2028 ", "\x0b", "\x85", '"', "\\", "\x00", "\x7f", "\ufeff"),
    *("\U0001f469\u200d\U0001f469\u200d\U0001f467", "\u0378"),
)


def strings(n: int, seed: int = 0) -> list[str]:
    """Texts of digits, white space, punctuation, scripts, emoji and what looks like special tokens."""
    rng = random.Random(seed)
    return ["".join(rng.choices(ATOMS, k=rng.randint(1, 12))) for _ in range(n)]


def asked(paths: Sequence[Path], texts: Sequence[str], out: Path) -> list[list[list[int]]]:
    """llama.cpp's ids of each text, for each file."""
    pytest.importorskip("xllamacpp", reason="llama.cpp itself is not installed (xllamacpp)")
    command = [sys.executable, str(TESTS / "helpers" / "llama_cpp_server.py"), str(out), *map(str, paths)]
    done = subprocess.run(command, input=json.dumps(list(texts)), text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr[-6000:]
    found: list[list[list[int]]] = json.loads(out.read_text())
    return found


def assert_same_ids(ours: HfTokenizer, path: Path) -> None:
    texts = strings(500)
    (theirs,) = asked([path], texts, path.with_suffix(".ids"))
    assert [list(ours.encode_data(text, first=True).ids) for text in texts] == theirs


@pytest.fixture(scope="module")
def byte_level() -> tuple[dict[str, Any], list[str], list[int]]:
    """A byte-level `tokenizer.json`, tokens and types; its merges cross every border that a split could draw."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=2000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, max_token_length=12
    )
    # In the file these stand as text; the library's vocabulary has them as bytes.
    added = {"<|mark|>": CONTROL, "<｜mark｜>": CONTROL, "<think>": USER_DEFINED, " \u2028 ": USER_DEFINED, "</s>": 1}
    plain = re.compile("|".join(map(re.escape, added)))
    tokenizer.train_from_iterator((plain.sub("", text) for text in strings(3000, seed=1)), trainer)
    spec: dict[str, Any] = json.loads(tokenizer.to_str())
    vocab = spec["model"]["vocab"]
    tokens = [token for token, _ in sorted(vocab.items(), key=lambda entry: entry[1])]
    spelled = tokenizer.pre_tokenizer.pre_tokenize_str
    for text in added:
        vocab[spelled(text)[0][0]] = len(tokens)
        tokens.append(text)
    types = [1] * (len(tokens) - len(added)) + list(added.values())
    return spec, tokens, types


def converted(spec: Mapping[str, Any], tokens: Sequence[str], types: Sequence[int], split: str) -> HfTokenizer:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    added = [(i, t, k == CONTROL) for i, (t, k) in enumerate(zip(tokens, types, strict=True)) if k != 1]
    changed = as_llama_cpp(spec, TokenizerHeader("gpt2", split, None, None, tuple(added)))
    library = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(changed)))
    return HfTokenizer(library, None)


@pytest.mark.long
@pytest.mark.parametrize("n_names", [1, 99], ids=["each split", "each name"])
def test_every_split_is_llama_cpps(n_names: int, byte_level: Any, tmp_path: Path) -> None:
    spec, tokens, types = byte_level
    splits: dict[Any, list[str]] = {}
    for name, split in PRE_TOKENIZERS.items():
        splits.setdefault(split, []).append(name)
    names = [name for of_split in splits.values() for name in of_split[:n_names]]
    merges = [" ".join(merge) for merge in spec["model"]["merges"]]
    for name in names:
        write_gguf(
            tmp_path / name, tokens, types, model="gpt2", pre=name, merges=merges, bos_token_id=0, eos_token_id=0
        )
    texts = strings(500)
    for name, theirs in zip(names, asked([tmp_path / name for name in names], texts, tmp_path / "ids"), strict=True):
        ours = converted(spec, tokens, types, name)
        for text, ids in zip(texts, theirs, strict=True):
            assert list(ours.encode_data(text, first=True).ids) == ids, (name, text)


def sentence_piece() -> dict[str, Any]:
    """Tokens, types and scores of a SentencePiece vocabulary whose longer tokens are made of shorter ones."""
    words = ["▁▁", "▁▁▁▁", "▁a", "He", "ll", "Hell", "Hello", "▁Hello", "th", "the", "▁the", "..", "...", "▁(", "12"]
    letters = sorted({letter for atom in ATOMS for letter in atom if letter.isascii() and letter.isprintable()} - {" "})
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *letters, *words, "<think>"]
    types = [2, CONTROL, CONTROL, *[BYTE] * 256, *[1] * (1 + len(letters) + len(words)), USER_DEFINED]
    return {"tokens": tokens, "types": types, "scores": [-float(i) for i in range(len(tokens))]}


@pytest.mark.parametrize("adds_space", few([True, False]))
def test_a_sentence_piece_vocabulary_is_llama_cpps(adds_space: bool, tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "own.gguf"
    keys = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "add_space_prefix": adds_space}
    write_gguf(path, **sentence_piece(), model="llama", pre="default", **keys)
    ours = loaded(resolve(str(path), notify=lambda line: None).path)
    assert ours.start_ids == (1,)
    assert_same_ids(ours, path)


@pytest.fixture(scope="module")
def default_model() -> Path:
    """Folder of the default model; skipped, visibly, where it is not at hand."""
    try:
        return Path(resolve(DEFAULT_MODEL, notify=lambda line: None).path)
    except ModelError as error:
        pytest.skip(f"the default model is not at hand: {error}")


def loaded(path: str | Path) -> HfTokenizer:
    from transformers import AutoTokenizer

    return HfTokenizer(AutoTokenizer.from_pretrained(path, local_files_only=True), None)


def test_a_converted_file_gives_llama_cpps_ids(byte_level: Any, tmp_path: Path, cache: Path) -> None:
    spec, tokens, types = byte_level
    path = tmp_path / "own.gguf"
    merges = [" ".join(merge) for merge in spec["model"]["merges"]]
    write_gguf(path, tokens, types, model="gpt2", pre="smollm", merges=merges, bos_token_id=0, eos_token_id=0)
    assert_same_ids(loaded(resolve(str(path), notify=lambda line: None).path), path)


@pytest.mark.long
def test_the_default_models_ids_are_llama_cpps(default_model: Path, tmp_path: Path) -> None:
    spec = json.loads((default_model / "tokenizer.json").read_text("utf-8"))
    tokens = sorted(spec["model"]["vocab"], key=spec["model"]["vocab"].__getitem__)
    added = {entry["id"] for entry in spec["added_tokens"]}
    types = [CONTROL if i in added else 1 for i in range(len(tokens))]
    merges = [" ".join(merge) for merge in spec["model"]["merges"]]
    path = tmp_path / "own.gguf"
    write_gguf(path, tokens, types, model="gpt2", pre="smollm", merges=merges, bos_token_id=1, eos_token_id=2)
    assert_same_ids(loaded(default_model), path)


def test_the_default_model_joins_line_breaks_before_a_digit(default_model: Path) -> None:
    """As llama.cpp's server tokenises them with the file itself."""
    ours = loaded(default_model)
    for text, ids in (
        ("\n\n1. a", (1116, 33, 30, 253)),
        ("hello 123", (28120, 216, 33, 34, 35)),
        ("<|im_start|>x", (44, 108, 306, 79, 3738, 108, 46, 104)),
    ):
        assert ours.encode_data(text, first=True).ids == ids


def test_another_split_is_refused_by_name(byte_level: Any, tmp_path: Path, cache: Path) -> None:
    _, tokens, types = byte_level
    path = tmp_path / "own.gguf"
    write_gguf(path, tokens, types, model="gpt2", pre="unheard-of", merges=[], bos_token_id=0, eos_token_id=0)
    with pytest.raises(ModelError, match=r"'own\.gguf' splits text by 'unheard-of' \(tokenizer\.ggml\.pre\)"):
        resolve(str(path), notify=lambda line: None)
    write_gguf(path, tokens, types, model="rwkv", pre="default", merges=[], bos_token_id=0, eos_token_id=0)
    with pytest.raises(ModelError, match="a tokenizer of kind 'rwkv', which cannot be converted"):
        resolve(str(path), notify=lambda line: None)
