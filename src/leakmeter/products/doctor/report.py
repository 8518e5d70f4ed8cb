"""What the doctor found, as blocks: faults by name, what they are, in words, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.backends.served.connection import CUTS, SLOW
from leakmeter.products.doctor.result import DoctorResult
from leakmeter.report.blocks import (
    Advice,
    Block,
    Column,
    CommandLine,
    Facts,
    Headline,
    Phrase,
    Provenance,
    Report,
    Row,
    Table,
    Untrusted,
)

UPDATE: Final = "Update the server, or use another one; measurements with this one are unreliable."
FAULTS: Final[dict[str, tuple[str, str]]] = {
    "above_zero": ("It returns numbers above 0, so they are not log-probabilities but, for example, logits.", UPDATE),
    "another_model": (
        "A different model answers than the one requested.",
        "Keep one model on the server during a run; start a new run for the other model.",
    ),
    "busy": (
        "It refuses requests because it is busy (status 429).",
        "Lower --concurrency, or ask for a higher limit; a run waits and continues.",
    ),
    "changed": (
        "The model changed during the check: the same request now has a different answer than at the start.",
        "Keep one model on the server during a run, and one model per address; then run the doctor again.",
    ),
    "cut": (
        "It cuts connections in the middle of an answer.",
        "Check the server's log and anything in front of it, such as a proxy; a run retries and continues.",
    ),
    "few_top": (
        "It returns fewer of a row's likeliest tokens than requested.",
        "Raise the server's limit (vLLM: --max-logprobs).",
    ),
    "lengths": (
        "Its numbers depend on how many tokens are computed at once by far more than rounding does: a token has "
        "another log-probability alone, behind those before it, than within its response.",
        "Give another model.",
    ),
    "missing_rows": ("Rows of log-probabilities are missing: it returns fewer rows than it was sent tokens.", UPDATE),
    "nan": (
        "It returns NaN for a log-probability.",
        "Serve the model in float32 or bfloat16, and check the server's log.",
    ),
    "no_ids": (
        "It does not report which token ids it read, so nothing can be checked.",
        "Update the server (vLLM: return_token_ids).",
    ),
    "no_numbers": ("It omits log-probabilities, or returns values that are not numbers.", UPDATE),
    "no_rows": (
        "It answers with status 200 but without log-probabilities of the given tokens: it ignored echo.",
        "Use a dialect that the server speaks (llamacpp:, vllm:, sglang:), or another server.",
    ),
    "not_normalised": (
        "The probabilities of a row do not sum to 1.",
        "Turn off everything that changes logits on the server, such as penalties, biases and grammars.",
    ),
    "off_by_one": ("Log-probabilities belong to the previous or next position: rows are off by one.", UPDATE),
    "other_form": ("It returns a response that does not fit its dialect.", "Check the dialect before the address."),
    "other_ids": (
        "It returns other token ids than it was sent.",
        "Give the served model's tokenizer with --tokenizer.",
    ),
    "other_places": ("Rows are in the wrong order, or belong to other positions.", UPDATE),
    "other_tokenizer": (
        "It tokenises a text differently from the tokenizer on this machine.",
        "Give the served model's tokenizer with --tokenizer.",
    ),
    "other_weights": (
        "Its log-probabilities differ strongly from those of the local weights: it is another model, or its numbers "
        "are wrong.",
        "Check which weights are served, and which were given with --against.",
    ),
    "part_of_vocabulary": ("Rows lack part of the vocabulary.", UPDATE),
    "penalised": (
        "Log-probabilities depend on penalties.",
        "Turn penalties off on the server, and in the model's generation_config.json.",
    ),
    "sampled_otherwise": (
        "Its draws do not follow its own probabilities: the distribution is truncated, or drawn at another "
        "temperature.",
        "Turn top-k, top-p, min-p and penalties off on the server, or give the responses to measure.",
    ),
    "slow": (
        "It does not finish an answer in time.",
        "Check the server's load and the connection to it; a run waits ten minutes for an answer.",
    ),
    "start_token": (
        "It adds a start token to the token ids it receives.",
        "Turn that off on the server (add_special_tokens, add_bos_token); otherwise every prompt has two.",
    ),
    "tempered": (
        "Log-probabilities are not raw: they include the temperature.",
        "Configure the server to return raw ones (vLLM: --logprobs-mode raw_logprobs; SGLang: "
        "SGLANG_RETURN_ORIGINAL_LOGPROB).",
    ),
    "unreachable": ("It does not answer.", "Check that it runs, and read its log."),
    "unstable": (
        "The same request has a different answer each time.",
        "Keep others off the server during a run, or turn on deterministic kernels (VLLM_BATCH_INVARIANT=1, "
        "--enable-deterministic-inference).",
    ),
    "wrong_order": ("Rows are in the wrong order.", UPDATE),
    "wrong_passes": (
        "Its numbers depend on what is computed beside them by far more than rounding does: passes that share work are "
        "wrong for it, so nothing measured with them means anything.",
        "Give --dtype float32; if that does not help, give another model, and report this one as a bug.",
    ),
}
"""(what it is, what to do) by name."""


def fault_of_status(status: int, did: str) -> str | None:
    """The fault of a server by an answer's status, 0 where none came, and by what it did (`Connection.faults`); None
    where it refuses the request."""
    if status == 429 or did.endswith("status 429"):
        return "busy"
    return {CUTS: "cut", SLOW: "slow"}.get(did, None if status else "unreachable")


def first_sentence(text: str) -> str:
    return f"{text.split('. ')[0].removesuffix('.')}."


_STATUS: Final = {"passed": "passed", "note": "to know", "failed": "FAILED", "skipped": "–"}


def report(
    results: Sequence[DoctorResult],
    *,
    command: str | None = None,
    provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
) -> Report:
    """One examination; `provenance` is unused, since there is no run."""
    (result,) = results
    return Report(
        title=("Doctor: ", Untrusted(result.model)),
        measure="doctor",
        blocks=tuple(_blocks(result)),
        lead="Checks whether measurements can rely on the numbers of this model, using built-in texts.",
        command=CommandLine.from_line(command),
        scripted=False,
    )


def _blocks(result: DoctorResult) -> Iterator[Block]:
    yield Headline(result.verdict, "good" if result.is_sound else "bad")
    # Two checks may find one fault.
    todo = list(
        dict.fromkeys(
            (first_sentence(check.found).removesuffix("."), check.advice) for check in result.checks if check.advice
        )
    )
    if todo:
        yield Advice(todo)
    yield Table(
        [Column("check"), Column("result"), Column("found")],
        [
            Row([f"{check.number} {check.name}", _STATUS[check.status], check.found], strong=check.status == "failed")
            for check in result.checks
        ],
        caption="What was examined",
    )
    if noise := result.noise:
        ways = [
            ("asked again", noise.repeat_nats),
            ("in another order", noise.order_nats),
            ("with others at once", noise.batch_nats),
            ("after a prefix was kept", noise.cache_nats),
            ("token by token", noise.split_nats),
            ("largest", noise.floor_nats),
            ("largest, of a whole response", noise.response_floor_nats),
        ]
        yield Table(
            [Column("circumstance"), Column("moves a log-probability by", "nats", "nats")],
            [Row([name, value]) for name, value in ways],
            caption="Noise floor",
        )
    yield Facts(tuple(_facts(result)), "The model")


def _facts(result: DoctorResult) -> Iterator[tuple[Phrase, Phrase]]:
    facts = {
        "Dialect": result.dialect,
        "Served as": result.served_model,
        "Revision": result.revision,
        "Server": result.server_version,
        "Fingerprint": result.fingerprint,
    }
    for name, value in facts.items():
        if value:
            yield name, Untrusted(value, 80)
    if result.window is not None:
        yield "Window", f"{result.window:,} tokens"
    for name, value in (result.settings or {}).items():
        yield name.capitalize(), Untrusted(value, 80)
