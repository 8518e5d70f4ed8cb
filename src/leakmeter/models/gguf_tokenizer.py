"""The tokenizer of a GGUF file as llama.cpp runs it.

The transformers library builds vocabulary, merges and added tokens. Where it leaves out what llama.cpp does with the
text before merges, or which tokens end a turn, this module puts it right: the split of byte-level vocabularies by the
file's `tokenizer.ggml.pre`, and the space before the first word of SentencePiece ones.

A GGUF file holds vocabulary and merges, but of the split only a name; what the name means stands in llama.cpp's source
(`src/llama-vocab.cpp`, release b11549). The patterns here are those definitions in the syntax of the tokenizers
library. They are applied one after another: each cuts the pieces that the one before has left. Every name below is
held, id for id, against llama.cpp itself in `tests/models/test_llama_cpp.py`. A name that is not here is
refused, because another split gives other token ids, and other ids other nats, without any error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.record import JsonObject
from leakmeter.errors import ModelError

if TYPE_CHECKING:
    from gguf import GGUFReader

# Tokens that llama.cpp takes for control tokens by their text, whatever the file says: in data they stay text.
_TURN_ENDS: Final = frozenset(
    (
        *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>"),
        *("<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<eos>"),
        *("<end_of_utterance>", "<turn|>", "<|tool_response>", "[e~[", "<｜end▁of▁sentence｜>"),
    )
)
_CONTROL: Final = 3
_USER_DEFINED: Final = 4
_ADVICE: Final = "give a directory with safetensors and tokenizer.json instead"


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """A split, and what else llama.cpp ties to its name."""

    patterns: tuple[str, ...]
    """Regular expressions; what matches and what is left between matches are pieces of their own."""
    ignores_merges: bool = False
    """Whether a piece that is in the vocabulary is one token, also where merges would not make it."""
    adds_start: bool = False
    """Whether the start token is put before a prompt where the file does not say."""


_CONTRACTION: Final = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_WORD: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SYMBOLS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3: Final = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SYMBOLS}|{_SPACES}"
_QWEN2: Final = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_SYMBOLS}|{_SPACES}"
_QWEN35: Final = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
# A letter that is no small (no capital) letter of ASCII: llama.cpp's stand-in for the upper (lower) case of Unicode.
_CAPITAL: Final = r"(?:(?=\p{L})[^a-z])"
_SMALL: Final = r"(?:(?=\p{L})[^A-Z])"
_CASED: Final = rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITAL}*{_SMALL}+"
_CAPITALS: Final = rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITAL}+{_SMALL}*"
_SLASHED: Final = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_TEKKEN: Final = rf"{_CASED}|{_CAPITALS}|\p{{N}}|{_SLASHED}"
_GPT4O: Final = rf"{_CASED}{_CONTRACTION}?|{_CAPITALS}{_CONTRACTION}?|\p{{N}}{{1,3}}|{_SLASHED}"
_DEEPSEEK3: Final = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    rf"|{_SPACES}",
)
_BLOOM: Final = r" ?[^(\s|.,!?…。，、।۔،)]+"
_FALCON: Final = r"[\p{P}\$\+<=>\^~\|`]+"
_DEFAULT: Final = PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"))

_BY_SPLIT: Final[tuple[tuple[PreTokenizer, tuple[str, ...]], ...]] = (
    (_DEFAULT, ("default",)),
    (
        PreTokenizer((_LLAMA3,), ignores_merges=True, adds_start=True),
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    ),
    (PreTokenizer((_LLAMA3,)), ("dbrx", "smaug-bpe", "glm4", "chatglm-bpe")),
    (
        PreTokenizer((_GPT2,)),
        ("gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4", "mpt", "olmo", "jais", "trillion"),
    ),
    (
        PreTokenizer((r"\p{N}", _GPT2)),
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
    ),
    (
        PreTokenizer((_QWEN2,)),
        ("qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"),
    ),
    (PreTokenizer((_QWEN35,)), ("qwen35",)),
    (PreTokenizer((_TEKKEN,), ignores_merges=True, adds_start=True), ("tekken",)),
    (PreTokenizer((_GPT4O,)), ("gpt-4o", "llama4", "kanana2", "minimax-m2")),
    (PreTokenizer(_DEEPSEEK3), ("deepseek-v3", "hunyuan-dense")),
    (PreTokenizer((_FALCON, _GPT2, r"[0-9][0-9][0-9]")), ("falcon",)),
    (PreTokenizer((_BLOOM,)), ("bloom", "gpt3-finnish", "poro-chat")),
    (PreTokenizer((_BLOOM, r"\p{N}")), ("viking",)),
    (
        PreTokenizer(
            (rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_WORD}|\p{{N}}|{_SYMBOLS}|\s*[\r\n]|\s+(?!\S)|\s+",)
        ),
        ("bailingmoe", "bailingmoe2"),
    ),
    (
        PreTokenizer((rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",)),
        ("seed-coder",),
    ),
)

PRE_TOKENIZERS: Final[dict[str, PreTokenizer]] = {name: split for split, names in _BY_SPLIT for name in names}
"""By the name in `tokenizer.ggml.pre`."""


@dataclass(frozen=True, slots=True)
class TokenizerHeader:
    """What a GGUF file says of its tokenizer beside vocabulary and merges."""

    kind: str
    """`tokenizer.ggml.model`: 'gpt2' for byte-level merges, 'llama' for SentencePiece."""
    split: str
    """`tokenizer.ggml.pre`; 'default' where the file names none."""
    adds_space: bool | None
    """Whether a space is put before the text; None where the file does not say."""
    adds_start: bool | None
    """Whether the start token is put before the prompt; None where neither the file nor its split says."""
    added: tuple[tuple[int, str, bool], ...]
    """Id and text of each token that is found whole in a text before it is split, and whether it is a control token."""

    @classmethod
    def from_reader(cls, reader: GGUFReader, name: str) -> TokenizerHeader:
        fields = reader.fields

        def value(key: str) -> Any:
            field = fields.get(f"tokenizer.ggml.{key}")
            return None if field is None else field.contents()

        kind, split = value("model"), value("pre") or "default"
        if kind not in ("gpt2", "llama", "gemma4"):
            raise ModelError(f"'{name}' has a tokenizer of kind '{kind}', which cannot be converted; {_ADVICE}")
        if kind == "gpt2" and split not in PRE_TOKENIZERS:
            raise ModelError(
                f"'{name}' splits text by '{split}' (tokenizer.ggml.pre), which cannot be converted; {_ADVICE}"
            )
        texts, types = value("tokens") or [], value("token_type") or []
        added = tuple(
            (i, text, type_ == _CONTROL)
            for i, (text, type_) in enumerate(zip(texts, types, strict=False))
            if type_ in (_CONTROL, _USER_DEFINED)
        )
        adds_start = value("add_bos_token")
        if kind == "gemma4" or (adds_start is None and kind == "gpt2" and PRE_TOKENIZERS[split].adds_start):
            adds_start = True
        return cls(kind, split, value("add_space_prefix"), adds_start, added)


def as_llama_cpp(spec: JsonObject, header: TokenizerHeader) -> JsonObject:
    """The content of a `tokenizer.json` that transformers made of a GGUF file, changed to give llama.cpp's ids."""
    vocab = dict(spec["model"]["vocab"])
    model = {**spec["model"], "vocab": vocab}
    changed = {**spec, "model": model}
    if header.kind == "gpt2":
        split = PRE_TOKENIZERS[header.split]
        model["ignore_merges"] = split.ignores_merges
        cuts = [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
            for pattern in split.patterns
        ]
        as_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        changed["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*cuts, as_bytes]}
        # Tokens that are found whole stand in the file as text, and in the library's vocabulary as bytes.
        spelled = {i: token for token, i in vocab.items()}
        for i, text, _ in header.added:
            vocab[text] = vocab.pop(spelled[i])
    elif header.kind == "llama":
        adds_space = header.adds_space is not False
        first = [{"type": "Prepend", "prepend": "▁"}] if adds_space else []
        spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
        changed["normalizer"] = {"type": "Sequence", "normalizers": [*first, spaces]}
        changed["pre_tokenizer"] = None
        words = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
        last = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if adds_space else []
        changed["decoder"] = {
            "type": "Sequence",
            "decoders": [words, {"type": "ByteFallback"}, {"type": "Fuse"}, *last],
        }
    ends = _TURN_ENDS - ({"</s>"} if "<|tool_response>" in vocab else set())
    found_whole = {i: (text, is_control or text in ends) for i, text, is_control in header.added}
    found_whole |= {vocab[text]: (text, True) for text in ends.intersection(vocab)}
    changed["added_tokens"] = [
        {"id": i, "content": text, "special": special}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for i, (text, special) in sorted(found_whole.items())
    ]
    return changed
