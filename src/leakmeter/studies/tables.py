"""Rows of numbers to a Markdown table for people and a CSV for programs; the same rows give the same bytes."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leakmeter.core.plain import csv_writer

Row = Mapping[str, Any]

HEADINGS = {
    "cid_lambda": "λ",
    "epsilon": "ε a token",
    "dataset": "data set",
    "max_context_tokens": "context tokens, at most",
    "unit": "piece",
    "position": "position t",
    "piece": "piece i",
    "first_token": "first token of the piece",
    "nats": "τ̂, nats",
    "nats_per_token": "nats a token",
    "nats_q05": "5 %",
    "nats_q50": "median",
    "nats_q95": "95 %",
    "difference_nats": "less the first x, paired, nats",
    "repeat_published": "Repeat prompts, as published",
    "repeat_stated": "Repeat prompts, as stated",
    "rouge_published": "ROUGE prompts, as published",
    "rouge_stated": "ROUGE prompts, as stated",
    "n_responses": "responses",
    "rouge_l_f1": "ROUGE-L F1",
    "bertscore_f1": "BERTScore F1",
    "factkb": "FactKB",
    "pieces_median": "pieces, median",
    "peak_piece": "peak at i",
    "peak_nats": "peak τ̂_i, nats",
    "early_nats": "first half, nats",
    "late_nats": "second half, nats",
    "early_less_late_nats": "first less second, paired, nats",
    "n_tokens": "tokens, mean",
    "guaranteed_nats_most": "guaranteed n·ε, most",
    "spent_nats_most": "spent, most",
    "rouge_l_f1_less_best": "ROUGE-L F1 less the best's, paired",
    "rouge_l_f1_knee_share": "knee by ROUGE-L",
    "bertscore_f1_less_best": "BERTScore F1 less the best's, paired",
    "bertscore_f1_knee_share": "knee by BERTScore",
    "loss_nats": "ICLInf, nats",
    "loss_nats_q05": "5 %",
    "loss_nats_q50": "median",
    "loss_nats_q95": "95 %",
    "macro_f1": "macro-F1",
    "below_noise_share": "below the noise floor",
    "exemplar_position": "position of the exemplar",
    "position_nats": "loss without it, nats",
    "tree_tokens_median": "tokens run a query, median",
    "paired_nats": "paired difference, nats",
    "susceptibility_nats": "susceptibility, nats",
    "sigma": "Σ",
    "n_known_answers": "queries with a known answer",
    "n_original": "answers as without a context",
    "n_context": "answers as the context says",
    "memorisation_ratio": "memorisation ratio",
    "susceptibility_nats_q05": "5 %",
    "susceptibility_nats_q50": "median",
    "susceptibility_nats_q95": "95 %",
    "from_bare_nats": "from the bare query, nats",
    "ceiling_share": "of the ceiling",
    "n_relations": "relations",
    "partial_spearman": "Spearman given length, entropy, openness",
    "chosen_by_spearman": "Spearman it was chosen by",
    "eq_10_spearman": "of Eq. 10",
    "spearman_difference": "difference",
    "n_values": "values",
    "above_decoys_nats": "association less decoys', nats",
    "known": "share with p ≤ 0.05",
    "exposure_bits_mean": "exposure, bits",
    "ranks_p": "p of ranks",
    "ranks_holm_p": "Holm",
    "rank_sum_p": "rank-sum p",
    "rank_sum_holm_p": "Holm",
    "normalised_log_likelihood_nats": "normalised log-likelihood, nats a token",
    "normalised_log_likelihood_nats_mean": "likelihood, nats a token",
    "decoy_normalised_log_likelihood_nats_mean": "decoys', nats a token",
    "likelihood_rank_sum_p": "rank-sum p of likelihood, as published",
    "likelihood_rank_sum_holm_p": "Holm",
    "part": "what of it",
    "extracted": "share of values",
    "wilcoxon_p": "Wilcoxon p",
    "holm_p": "p among all, Holm",
}
"""What columns are called in Markdown; others keep their names."""
SYMBOLS = {"cid_lambda": "λ", "epsilon": "ε"}
"""What a column is called where only a letter has room."""
_QUALITY = ("rouge_l_f1", "bertscore_f1", "factkb")
# Tables of the field show these times 100.
_PERCENT = (*_QUALITY, *(f"{name}_less_best" for name in _QUALITY), "accuracy", "macro_f1")
_OVER_SEEDS = ("mean", "least", "most")
_DIGITS = {
    "nats_per_token": 3,
    "paired_nats": 3,
    "tree_tokens_median": 0,
    **dict.fromkeys(_OVER_SEEDS, 3),
}  # after the point; 2 for others
_CSV_ONLY = ("_low", "_high", "_q25", "_q75", "_std")


def columns_of(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def to_csv(rows: Sequence[Row]) -> str:
    """Every column and every digit; what a row does not have, or NaN, is an empty cell."""
    names = columns_of(rows)
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(["" if _is_missing(row.get(name)) else row[name] for name in names])
    return sink.getvalue()


def items_to_csv(rows: Iterable[Row]) -> str:
    """A row an item: all have the same columns, and every digit."""
    rows = list(rows)
    sink = io.StringIO(newline="")
    writer = csv_writer(sink)
    writer.writerow(columns_of(rows))
    writer.writerows(row.values() for row in rows)
    return sink.getvalue()


def to_markdown(title: str, about: Sequence[str], rows: Sequence[Row], *, level: int = 1) -> str:
    """A table with its title and what is to be known of it.

    A mean with 'X_low' and 'X_high' shows its interval, with 'X_std' also its standard deviation.
    """
    names = [name for name in columns_of(rows) if not name.endswith(_CSV_ONLY)]
    lines = [f"{'#' * level} {title}", "", *(f"- {_escaped(line)}" for line in about), ""]
    lines.append("| " + " | ".join(_escaped(HEADINGS.get(name, name.replace("_", " "))) for name in names) + " |")
    lines.append("|" + " --- |" * len(names))
    lines += ["| " + " | ".join(_cell(row, name) for name in names) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def share_text(share: float) -> str:
    """A share in per cent; one that is neither nothing nor all is not rounded to either."""
    shown = min(max(100.0 * share, 1.0 if share > 0.0 else 0.0), 99.0 if share < 1.0 else 100.0)
    return f"{shown:.0f} %"


def _cell(row: Row, name: str) -> str:
    value = row.get(name)
    if value is None or _is_missing(value):
        return "–"
    if name.endswith("_share"):
        return share_text(value)
    if name.endswith("_p"):
        return f"{value:.2g}"
    scale, form = 100.0 if name in _PERCENT else 1.0, f"z.{_DIGITS.get(name, 2)}f"
    if f"{name}_share_low" in row:
        low, high = (100.0 * row[f"{name}_share_{end}"] for end in ("low", "high"))
        return f"{value} ({low:.1f} to {high:.1f} %)"
    shown = f"{scale * value:{form}}" if isinstance(value, float) and _is_measured(row, name) else _escaped(str(value))
    if not _is_missing(row.get(f"{name}_std")):
        shown += f" ± {scale * row[f'{name}_std']:{form}}"
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if low is None or high is None or math.isnan(low):
        return shown
    return f"{shown} [{scale * low:{form}}, {scale * high:{form}}]"


def _is_measured(row: Row, name: str) -> bool:
    if f"{name}_low" in row or "_q" in name or name in (*_PERCENT, *_OVER_SEEDS):
        return True
    return name.endswith(("_median", "_mean", "_most", "n_tokens"))


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
