"""Faults by name: what they are, in words, and what to do about them."""

from __future__ import annotations

from typing import Final

from leakmeter.backends.served.connection import CUTS, SLOW

UPDATE: Final = "Update the server, or measure with another one; nothing that is measured now can be relied on."
FAULTS: Final[dict[str, tuple[str, str]]] = {
    "above_zero": ("It returns log-probabilities above 0, so they are not log-probabilities, such as logits.", UPDATE),
    "another_model": (
        "Another model answers than the one that was asked.",
        "Let the server keep one model while a run lasts; start a new run for the other one.",
    ),
    "busy": (
        "It refuses requests because it is busy (status 429).",
        "Lower --concurrency, or ask for a higher limit; a run waits and goes on.",
    ),
    "changed": (
        "The model changed while it was examined: the same request has another answer than at the beginning.",
        "Let the server keep one model while a run lasts, behind one address one model; then run the doctor again.",
    ),
    "cut": (
        "It cuts connections in the middle of an answer.",
        "Look at the server's log and at what stands before it, such as a proxy; a run asks again and goes on.",
    ),
    "few_top": (
        "It tells fewer of a row's likeliest tokens than were asked for.",
        "Raise the server's limit (vLLM: --max-logprobs).",
    ),
    "missing_rows": ("Rows of log-probabilities are missing: fewer come back than tokens were sent.", UPDATE),
    "nan": (
        "It answers with NaN for a log-probability.",
        "Serve the model in float32 or bfloat16, and look at the server's log.",
    ),
    "no_ids": (
        "It does not tell which token ids it read, so that nothing can be checked.",
        "Update the server (vLLM: return_token_ids).",
    ),
    "no_numbers": ("It leaves log-probabilities out, or answers with something that is no number.", UPDATE),
    "no_rows": (
        "It answers with status 200 and without log-probabilities of the tokens that it was given: echo was ignored.",
        "Use a dialect that the server speaks (llamacpp:, vllm:, sglang:), or another server.",
    ),
    "not_normalised": (
        "The probabilities of a row do not add up to 1.",
        "Turn off what changes logits on the server, such as penalties, biases and grammars.",
    ),
    "off_by_one": ("Log-probabilities are those of the place before or behind: rows are off by one.", UPDATE),
    "other_form": ("It returns a response that does not fit its dialect.", "Check the dialect before the address."),
    "other_ids": (
        "It answers about other token ids than it was sent.",
        "Give the tokenizer of the model that is served, with --tokenizer.",
    ),
    "other_places": ("Rows come back in the wrong order, or are those of other places.", UPDATE),
    "other_tokenizer": (
        "It makes other token ids of a text than the tokenizer on this machine.",
        "Give the tokenizer of the model that is served, with --tokenizer.",
    ),
    "other_weights": (
        "Its log-probabilities have little to do with those of the local weights: it is another model, or its "
        "numbers are wrong.",
        "Check which weights are served, and those that were given with --against.",
    ),
    "part_of_vocabulary": ("Rows lack a part of the vocabulary.", UPDATE),
    "penalised": (
        "Log-probabilities depend on penalties.",
        "Turn penalties off on the server, and in the model's generation_config.json.",
    ),
    "sampled_otherwise": (
        "Its draws do not follow its own probabilities: the distribution is truncated, or drawn at another "
        "temperature.",
        "Turn top-k, top-p, min-p and penalties off on the server, or give the responses that are to be measured.",
    ),
    "slow": (
        "It does not finish an answer in time.",
        "Look at the server's load and at the line to it; a run waits ten minutes for an answer.",
    ),
    "start_token": (
        "It puts a start token before the token ids that it is sent.",
        "Turn that off on the server (add_special_tokens, add_bos_token): every prompt would have two.",
    ),
    "tempered": (
        "Log-probabilities are those after the temperature, not raw.",
        "Let the server tell raw ones (vLLM: --logprobs-mode raw_logprobs; SGLang: SGLANG_RETURN_ORIGINAL_LOGPROB).",
    ),
    "unreachable": ("It does not answer.", "Check that it runs, and what its log says."),
    "unstable": (
        "The same request has another answer each time.",
        "Let nobody else use the server meanwhile, or turn on deterministic kernels (VLLM_BATCH_INVARIANT=1, "
        "--enable-deterministic-inference).",
    ),
    "wrong_order": ("Rows come back in the wrong order.", UPDATE),
}
"""(what it is, what to do) by name."""


def fault_of_status(status: int, did: str) -> str | None:
    """The fault of a server that does not answer a request as it should, whose status is 0 where no answer came; None
    where it refuses it. `did` is as of `Connection.faults`."""
    if status == 429 or did.endswith("status 429"):
        return "busy"
    return {CUTS: "cut", SLOW: "slow"}.get(did, None if status else "unreachable")


def first_sentence(text: str) -> str:
    return f"{text.split('. ')[0].removesuffix('.')}."
