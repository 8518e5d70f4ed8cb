"""Writes a converted llama back as a GGUF file of float32 weights, for llama.cpp to run what transformers runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

CONTROL: Final = 3
NORMAL: Final = 1
_OF_LAYER: Final = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
_OTHERS: Final = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write_llama(folder: Path, path: Path, *, split: str) -> None:
    """A folder with a llama's safetensors, configuration and byte-level tokenizer to a GGUF file.

    `split` is llama.cpp's name of how the tokenizer splits text before merges.
    """
    import gguf
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text("utf-8"))
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    writer = gguf.GGUFWriter(path, "llama")
    told = {
        "context_length": config["max_position_embeddings"], "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"], "feed_forward_length": config["intermediate_size"],
        "head_count": heads["q"], "head_count_kv": heads["k"], "rope_dimension_count": config["head_dim"],
        "rope_freq_base": config["rope_parameters"]["rope_theta"], "layer_norm_rms_eps": config["rms_norm_eps"],
        "file_type": gguf.LlamaFileType.ALL_F32, "vocab_size": config["vocab_size"],
    }  # fmt: skip
    for name, value in told.items():
        getattr(writer, f"add_{name}")(value)
    _add_tokenizer(writer, folder, config, split)
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        is_turned = name.endswith(("q_proj.weight", "k_proj.weight"))
        tensors[_name(name.removesuffix(".weight"))] = _rotated(tensor, heads[name[-13]]) if is_turned else tensor
    _write(writer, tensors)


def _write(writer: Any, tensors: dict[str, npt.NDArray[np.float32]]) -> None:
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any, folder: Path, config: dict[str, Any], split: str) -> None:
    spec = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    ids = {**spec["model"]["vocab"], **{one["content"]: one["id"] for one in spec["added_tokens"]}}
    special = {one["id"] for one in spec["added_tokens"] if one["special"]}
    tokens = sorted(ids, key=lambda token: ids[token])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if ids[token] in special else NORMAL for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in spec["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    template = folder / "chat_template.jinja"
    if template.is_file():
        writer.add_chat_template(template.read_text("utf-8"))


def _name(name: str) -> str:
    if name in _OTHERS:
        return _OTHERS[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{_OF_LAYER[rest]}"


def _rotated(weight: npt.NDArray[np.float32], n_heads: int) -> npt.NDArray[np.float32]:
    """Rows of a head as llama.cpp has them: those turned together side by side, not, as in transformers, half apart."""
    halves = weight.reshape(n_heads, 2, -1, weight.shape[1])
    return halves.transpose(0, 2, 1, 3).reshape(weight.shape)


def write_tiny_llama(folder: Path) -> None:
    """A folder with a llama of random weights and a byte-level tokenizer, whose text llama.cpp splits as gpt-2's."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["a patient writes to the clinic and the clinic writes back to the patient"], trainer)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    ).save_pretrained(str(folder))
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=48, max_position_embeddings=4096, bos_token_id=1, eos_token_id=2,
        # Large enough that every token of the context is felt.
        pad_token_id=0, initializer_range=0.35,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(20)
        transformers.LlamaForCausalLM(config).save_pretrained(str(folder))


def write_gguf(
    path: Path, tokens: Sequence[str], types: Sequence[int], **tokenizer: Any
) -> dict[str, npt.NDArray[np.float32]]:
    """A llama of one tiny layer of random weights, with a tokenizer; its further keys are `tokenizer.ggml.KEY`."""
    import gguf

    size, n_heads = 32, 2
    writer = gguf.GGUFWriter(path, "llama")
    told = {
        "context_length": 64, "embedding_length": size, "block_count": 1, "feed_forward_length": size,
        "head_count": n_heads, "head_count_kv": n_heads, "layer_norm_rms_eps": 1e-5,
        "rope_dimension_count": size // n_heads, "vocab_size": len(tokens), "token_list": [*tokens],
        "token_types": [*types],
    }  # fmt: skip
    for name, said in told.items():
        getattr(writer, f"add_{name}")(said)
    for key, value in tokenizer.items():
        kind = {bool: "bool", str: "string", int: "uint32"}.get(type(value), "array")
        getattr(writer, f"add_{kind}")(f"tokenizer.ggml.{key}", value)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(tokens), size), "output_norm": (size,)}
    shapes |= {f"blk.0.{name}_norm": (size,) for name in ("attn", "ffn")}
    shapes |= {f"blk.0.attn_{name}": (size, size) for name in ("q", "k", "v", "output")}
    shapes |= {f"blk.0.ffn_{name}": (size, size) for name in ("gate", "up", "down")}
    rng = np.random.default_rng(0)
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    _write(writer, tensors)
    return tensors
