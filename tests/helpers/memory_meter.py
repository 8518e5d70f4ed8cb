"""Peak resident memory of each instrument beside its model, in children that are forked, warm.

    python memory_meter.py FOLDER MODEL BUDGET,BUDGET… [INSTRUMENT…]

MODEL is a name, or 'small': random weights, a large vocabulary and wide states, so that little work holds much. Prints
a JSON object a line: instrument, budget as given to --memory, exit code, and in bytes what was resident before and at
the peak. Before that a line was scored with the model, and the instrument ran with the toy model, so that what is
imported does not count. 'pii from Python' has the C library's own settings instead of ours.
"""

import ctypes
import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from leakmeter.cli import main, process

SENTENCE = "The ferry to Aland sails at {0}, and nurse {0} waits. "
TASK = 'name = "mood"\nlabel_column = "mood"\nlabels = ["Up", "Low"]\n[fields]\nsaid = "Said"\n'
NOTE = "--context-file note.txt --query When?"
SAID = "--response 'It sails at nine.'"
CASES = "--data cases.jsonl --max-new-tokens 6"
TASKS = "--task task.toml --data rows.jsonl --label-scoring whole-sequence --max-queries 4"
PII = "pii probe --subjects people.jsonl --kinds twin --decoys 50 --control-names 1 --prompts 2"
ASKED = "susceptibility --queries asked.jsonl --contexts contexts.jsonl"
INSTRUMENTS = {
    "influence": f"influence {NOTE} {SAID}",
    # The states of a context as long as the smaller budget allows.
    "influence, search": f"influence --context-file long.txt --query When? {SAID} --search top:2:2",
    "influence, λ = 1.5": f"influence {NOTE} {SAID} --cid-lambda 1.5",
    "decode": f"decode {CASES} --samples 4",
    "redact": f"redact {NOTE} --response 'At nine' --max-loss 3 --max-new-tokens 4",
    "icl": f"icl {TASKS} --pool rows.jsonl --shots 4",
    "icl, vocabulary": f"icl {TASKS} --pool rows.jsonl --shots 4 --space vocabulary",
    "icl select": f"icl select {TASKS} --exemplars exemplars.jsonl --max-steps 1 --moves drop",
    "audit": (
        "generate --exemplars rows.jsonl --column said --temperature 2 --seed 0 --subset-size 6 --batches 1 "
        "--samples 6 --max-new-tokens 4"
    ),
    "susceptibility": ASKED,
    "fisher": f"{ASKED} --estimator fisher --sigma identity --sigma embedding --sigma empirical --place slot",
    "pii": PII,
    "pii from Python": PII,
    "frontier": f"decode frontier {CASES} --lambda 0.5 1.5",
}
WITHOUT_TOY = ("fisher",)  # it has no gradients
KEEP = process.keep_freed_memory


def write_model(folder: Path) -> None:
    """A model of few weights, and a tokenizer that spells in bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    n_vocab = 32_768
    words = ["</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words += [f"<{number}>" for number in range(len(words), n_vocab)]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    config = LlamaConfig(
        vocab_size=n_vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=8, head_dim=64, max_position_embeddings=4096, tie_word_embeddings=True,
        initializer_range=0.2, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(folder)


def write_data(folder: Path) -> None:
    from leakmeter.instruments.pii.canaries import canaries_of, lines_of

    said = [SENTENCE.format(i) for i in range(60)]
    rows = [{"id": f"n{i}", "said": said[i], "mood": ("Up", "Low")[i % 2]} for i in range(16)]
    files = {
        "cases": [{"id": str(i), "context": said[i] * 4, "query": "When?", "reference": "At nine."} for i in range(4)],
        "rows": rows,
        "exemplars": rows[:4],
        "asked": [{"id": f"q{i}", "query": f"When does ferry no. {i} sail to Aland?"} for i in range(2)],
        "contexts": [{"context": text} for text in said],
    }
    for name, records in files.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    (folder / "note.txt").write_text("".join(said[:7]), encoding="utf-8")
    (folder / "long.txt").write_text("".join(said[:22]), encoding="utf-8")
    (folder / "line.txt").write_text("One. Two.", encoding="utf-8")
    (folder / "task.toml").write_text(TASK, encoding="utf-8")
    (person,) = canaries_of(1, seed=11)
    person = replace(person, address=None, university=None, relationships=())
    (folder / "people.jsonl").write_text(lines_of([person]), encoding="utf-8")


def resident(field: str) -> int:
    """Of /proc: what is resident now ('VmRSS'), of files ('RssFile'), or was at most ('VmHWM'), in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024


def forget_peak() -> None:
    """Give freed memory back, and have the peak begin anew."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def run(words: list[str]) -> int:
    try:
        main(words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def measured(name: str, model: str, budget: str, told: int) -> None:
    forget_peak()
    before, files = resident("VmRSS"), resident("RssFile")
    code = run([*shlex.split(INSTRUMENTS[name]), "--model", model, "--memory", budget, "--out", f"{name}-{budget}"])
    # A fork does not hand on which pages of libraries are resident: those that were found anew are nobody's memory.
    peak = resident("VmHWM") - max(0, resident("RssFile") - files)
    found = {"instrument": name, "budget": budget, "code": code, "before": before, "peak": peak}
    os.write(told, (json.dumps(found) + "\n").encode())


def instrument(name: str, model: str, budgets: list[str], told: int) -> None:
    if not name.endswith("from Python"):
        process.keep_freed_memory = KEEP
    words = [*shlex.split(INSTRUMENTS[name]), "--model", "toy", "--out", f"{name}-toy"]
    if name not in WITHOUT_TOY and run(words):
        return
    for budget in budgets:
        measured(name, model, budget, told)


def meter(folder: Path, model: str, budgets: list[str], names: list[str]) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # threads do not outlive a fork
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ["LEAKMETER_SCORES"] = "off"
    os.environ["LEAKMETER_CONFIG"] = str(folder / "config")
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    # What commands print is for whom a test has failed.
    told, printed = os.dup(1), os.open("printed.txt", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    write_data(folder)
    if model == "small":
        model = str(folder / "model")
        in_child(write_model, folder / "model")
    # A child has the settings of the C library that its parent made.
    process.keep_freed_memory = lambda: False
    line = ["influence", "--context-file", "line.txt", "--query", "Q?", "--response", "A"]
    if run([*line, "--model", model, "--out", "line"]):
        sys.exit(Path("printed.txt").read_text(encoding="utf-8"))
    for name in names or INSTRUMENTS:
        in_child(instrument, name, model, budgets, told)


def in_child(work: Callable[..., None], *given: object) -> None:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        work(*given)
    finally:
        os._exit(0)


if __name__ == "__main__":
    meter(Path(sys.argv[1]).absolute(), sys.argv[2], sys.argv[3].split(","), sys.argv[4:])
