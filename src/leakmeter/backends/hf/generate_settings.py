"""What `generate` does beside a processor: settings that would change its distribution are refused by name."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList
from transformers.generation.logits_process import (
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
)

from leakmeter.errors import UsageError

SAMPLERS_OFF: Final[Mapping[str, object]] = {
    "do_sample": True,
    "num_beams": 1,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
}
"""Arguments of `generate` that turn off what many models' own generation_config turns on."""

# Settings that leave the processor's distribution alone, and the only values of theirs that do. top_k and do_sample
# have to be said: left out, they are 50 and False.
_HARMLESS: Final[Mapping[str, tuple[Any, ...]]] = {
    "do_sample": (True,),
    "num_beams": (None, 1),
    "temperature": (None, 1.0),
    "top_k": (0,),
    "top_p": (None, 1.0),
    "min_p": (None,),
    "top_h": (None,),
    "typical_p": (None, 1.0),
    "epsilon_cutoff": (None, 0.0),
    "eta_cutoff": (None, 0.0),
    "repetition_penalty": (None, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "exponential_decay_length_penalty": (None,),
    "penalty_alpha": (None,),
    "guidance_scale": (None, 1, 1.0),
    "sequence_bias": (None,),
    "bad_words_ids": (None,),
    "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,),
    "remove_invalid_values": (None, False),
    "renormalize_logits": (None, False),
    "watermarking_config": (None,),
    "prompt_lookup_num_tokens": (None,),
    "assistant_early_exit": (None,),
    "use_mtp": (None, False),
    "dola_layers": (None,),
    "token_healing": (None, False),
}
# They rule tokens out by the response's length alone, so that both branches can be given the same mask.
_MASKS: Final = (
    MinNewTokensLengthLogitsProcessor,
    MinLengthLogitsProcessor,
    SuppressTokensLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor,
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    masks: tuple[Any, ...] = ()
    """Processors before it, all of which rule out tokens alike whatever the prompt."""
    stop_ids: tuple[int, ...] | None = None
    """Ids that end a response, if they are known."""
    is_generate: bool = False
    """Whether it is `generate` that goes on from what the processor gives, and draws."""


def check_arguments(model: Any, arguments: Mapping[str, object]) -> None:
    """Refuse arguments of `generate`, or defaults of the model's generation_config, under which a processor does not
    have the last word; the error names every such setting."""
    ruled_out = ("assistant_model", "prefix_allowed_tokens_fn", "custom_generate", "generation_config")
    refused = [name for name in ruled_out if arguments.get(name) is not None]
    if refused:
        raise UsageError(f"{', '.join(refused)} cannot be used with a context influence processor; leave it out")
    config = copy.deepcopy(model.generation_config)
    config.update(**arguments)
    _refuse(_troubles(config, 0))


def surroundings(processor: LogitsProcessor, prompt_length: int) -> Surroundings:
    """Find the list that calls the processor, and the settings of the `generate` around it, and check both.

    A processor is handed neither, and what follows it can undo its bound without a sign: they are read off the call
    stack. Called by hand, outside a LogitsProcessorList, there is nothing to check.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and not isinstance(frame.f_locals.get("self"), LogitsProcessorList):
        frame = frame.f_back
    around = frame.f_locals.get("self")
    if not isinstance(around, LogitsProcessorList) or not any(member is processor for member in around):
        return Surroundings()
    caller = frame.f_back.f_locals if frame.f_back is not None else {}
    config = caller.get("generation_config")
    is_generate = isinstance(config, GenerationConfig)
    troubles = _troubles(config, prompt_length) if is_generate else []
    if caller.get("candidate_generator") is not None:
        troubles.append("assisted decoding")
    place = next(i for i, member in enumerate(around) if member is processor)
    if not troubles:
        troubles += [type(member).__name__ for member in around[:place] if not isinstance(member, _MASKS)]
        troubles += [type(member).__name__ for member in around[place + 1 :]]
        if config is None and any(isinstance(member, MinLengthLogitsProcessor) for member in around):
            troubles.append("min_length (counts the prompt; use min_new_tokens)")
    _refuse(troubles)
    return Surroundings(tuple(around[:place]), stop_ids_of(config) if is_generate else None, is_generate)


def stop_ids_of(config: GenerationConfig) -> tuple[int, ...]:
    ids = config.eos_token_id
    if ids is None:
        return ()
    return (int(ids),) if isinstance(ids, int) else tuple(int(i) for i in ids)


def _troubles(config: GenerationConfig, prompt_length: int) -> list[str]:
    troubles = []
    for name, harmless in _HARMLESS.items():
        value = getattr(config, name, None)
        if value not in harmless:
            default = " (generate's default)" if value is None else ""
            value = {"top_k": 50, "do_sample": False}.get(name) if value is None else value
            troubles.append(f"{name} = {value}{default}")
    # Lengths that count the prompt would tell of the context by where a response ends.
    if config.max_new_tokens is None:
        troubles.append("no max_new_tokens (max_length counts the prompt)")
    own = config.min_new_tokens + prompt_length if config.min_new_tokens is not None else 0
    if config.min_length and config.min_length != own:
        troubles.append(f"min_length = {config.min_length} (counts the prompt; use min_new_tokens)")
    return troubles


def _refuse(troubles: list[str]) -> None:
    if troubles:
        raise UsageError(
            f"generate would change the output of a context influence processor through {', '.join(troubles)}; turn "
            "that off, or take the settings from processor.arguments(max_new_tokens=…)"
        )
