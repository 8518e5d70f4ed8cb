"""Invented cases, written by hand; no person, clinic or model in them exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from leakmeter.core.cost import ResultCost
from leakmeter.instruments.influence.disclosures import Disclosure, Source
from leakmeter.instruments.influence.result import InfluenceResult, PieceInfluence, SampledResponse
from leakmeter.results.result import DocumentRange, Response
from leakmeter.stats.stats import GIVEN, posterior_of

Case = InfluenceResult
COST = ResultCost(
    requests=14, tree_tokens=1310, naive_tokens=4620, seconds=3.2,
    out_of_memory_retries=0, scored_together=None,
)  # fmt: skip
PLACEBO_SIGNED_NATS = 0.2

HOSTILE = (
    "</script><img src=x onerror=alert(1)> {{7*7}} {% raw %} <!-- [bold red]loud[/] [link=https://x.test]l[/link] "
    "\x1b[31mred\x1b]8;;https://x.test\x07link\x1b\\ \x9b5m \x00\x08\x7f \u202eevil\u2066 \u2028 &lt;b&gt; ' \" ` "
    "שלום עולם 🫠 \ud800 :smile: </style><style>*{display:none}</style>"
)


def piece(
    context: str, text: str, name: str, per_token_nats: Sequence[float], *, kind: str = "unit", **more: Any
) -> PieceInfluence:
    """A piece whose numbers agree with its signed nats a token."""
    spans, at = [], context.find(text)
    while at >= 0:
        spans.append((at, at + len(text)))
        at = context.find(text, at + len(text)) if kind == "value" else -1
    nats = sum(abs(x) for x in per_token_nats)
    posterior = posterior_of(sum(per_token_nats), noise_nats=0.004, placebo_nats=PLACEBO_SIGNED_NATS)
    made = PieceInfluence(
        name=name, kind=kind, text=text, start=spans[0][0], end=spans[0][1], spans=tuple(spans), document=None,
        n_tokens=max(1, len(text) // 4), n_mentions=len(spans), nats=nats,
        per_token_nats=tuple(abs(x) for x in per_token_nats), signed_nats=sum(per_token_nats),
        signed_per_token_nats=tuple(per_token_nats), alone_nats=0.8 * nats, posterior=posterior.probability,
        posterior_note=posterior.note, below_noise_floor=nats <= 0.004, rank=1, repeats=(), redundant=False,
        **dict.fromkeys(("mean_nats", "interval_nats", "worst_nats", "entity_type", "entity_value", "repeated")),
        **dict.fromkeys(("surrogate", "swapped_nats", "swapped_signed_nats", "swapped_signed_per_token_nats")),
    )  # fmt: skip
    return replace(made, **more)


def case(id_: str, context: str, query: str, tokens: Sequence[str], whole: Sequence[float], **more: Any) -> Case:
    """A case around its pieces, with everything a run says about itself."""
    posterior = posterior_of(sum(whole), noise_nats=0.004, placebo_nats=0.33)
    made = InfluenceResult(
        id=id_, model="hf:example/quill-360m", weights_sha256="9f2c4b7e" * 8, dtype="float32", unit="sentence",
        removal="drop", temperature=1.0, cid_lambda=1.0, template="chat", query=query, context=context,
        documents=(DocumentRange(name="note", start=0, end=len(context)),), truncated_tokens=0,
        response=Response(text="".join(tokens), tokens=tuple(tokens), sampled=True, seed=7), pieces=(),
        whole_nats=sum(abs(x) for x in whole), whole_signed_nats=sum(whole),
        whole_per_token_nats=tuple(abs(x) for x in whole), whole_signed_per_token_nats=tuple(whole),
        whole_posterior=posterior.probability, whole_posterior_note=posterior.note, noise_floor_nats=0.004,
        noise_floor_per_token_nats=0.0002, placebo_nats=0.41, placebo_signed_nats=PLACEBO_SIGNED_NATS,
        placebo_alone_nats=0.52, placebo_per_token_nats=tuple(0.41 / len(tokens) for _ in tokens),
        placebo_alone_per_token_nats=tuple(0.52 / len(tokens) for _ in tokens), placebo_alone_signed_nats=0.33,
        samples=(), whole_mean_nats=None, whole_interval_nats=None, whole_worst_nats=None, cost=COST, warnings=(),
        disclosures=(),
    )  # fmt: skip
    made = replace(made, **{name: tuple(value) if isinstance(value, list) else value for name, value in more.items()})
    return made if made.response.sampled else given(made)


def given(made: Case) -> Case:
    """The case as if its response had been given: no posterior follows."""
    return replace(
        made,
        response=replace(made.response, sampled=False, seed=None),
        whole_posterior=None,
        whole_posterior_note=made.whole_posterior_note or GIVEN,
        pieces=tuple(replace(one, posterior=None, posterior_note=one.posterior_note or GIVEN) for one in made.pieces),
        disclosures=tuple(replace(one, posterior=None) for one in made.disclosures),
    )


def clinic() -> Case:
    """A clinic note: one name written by two sentences, one address said twice and so invisible alone."""
    sentences = [
        "Consultation of 14 March, Harbour Street practice. ",
        "Ms Odile Fenwarren, 46, comes about a cough that has lasted three weeks. ",
        "She lives at 9 Tallow Row, Brenmouth, and works nights at the cannery. ",
        "No fever, no weight loss; she stopped smoking in 2019. ",
        "Chest clear on both sides, saturation 98 %.\n\n",
        "Medication: lisinopril 10 mg every morning since January. ",
        "Impression: cough from the ACE inhibitor, most likely. ",
        "Plan: stop lisinopril, start losartan 50 mg, see again in four weeks. ",
        "Letter to Ms Fenwarren, 9 Tallow Row, Brenmouth. ",
        "Parking was full again. ",
    ]
    context = "".join(sentences)
    tokens = ["Ms", " O", "dile", " Fen", "war", "ren", "'s", " cough", " is", " probably", " caused", " by",
              " lis", "in", "opril", ";", " she", " was", " switched", " to", " los", "artan", "."]  # fmt: skip
    n = len(tokens)

    def at(**hits: float) -> list[float]:
        line = [0.0001 * ((7 * i) % 5 - 2) for i in range(n)]
        for key, nats in hits.items():
            line[int(key[1:])] = nats
        return line

    measurements = [
        at(t0=0.05, t9=0.02), at(t0=1.9, t1=4.31, t2=2.2, t3=3.6, t4=0.41, t5=0.06, t7=2.4, t16=0.8),
        at(t0=0.03, t16=0.11), at(t16=-0.3, t7=0.05), at(t9=0.09, t10=-0.04),
        at(t12=0.34, t13=0.02, t14=0.18, t10=0.07), at(t7=0.5, t9=1.42, t10=1.16, t11=0.2, t12=0.66, t15=0.1),
        at(t12=0.5, t18=2.61, t19=0.14, t20=3.9, t21=0.74, t15=-0.35), at(t0=0.2, t3=0.75, t4=0.1, t5=0.01),
        [0.0001 * (i % 2) for i in range(n)],
    ]  # fmt: skip
    pieces = [piece(context, s, f"s{i}", r) for i, (s, r) in enumerate(zip(sentences, measurements, strict=True))]
    pieces[2] = replace(pieces[2], repeats=("s8",), redundant=True, alone_nats=4.7)
    pieces[8] = replace(pieces[8], repeats=("s2", "s1"), alone_nats=5.3)
    pieces[5] = replace(pieces[5], repeats=("s7",), redundant=True, alone_nats=6.4)
    pieces.append(piece(context, "Fenwarren", "v0", at(t3=6.8, t4=2.7, t5=0.9), kind="value"))
    pieces.append(piece(context, "9 Tallow Row, Brenmouth", "v1", at(t0=0.22), kind="value"))
    pieces.append(piece(context, "lisinopril", "v2", at(t12=5.2, t13=1.9, t14=0.8), kind="value"))
    whole = at(t0=2.1, t1=5.1, t2=2.9, t3=7.2, t4=2.8, t5=1.1, t6=-0.2, t7=3.3, t9=1.5, t10=1.2, t12=5.6, t13=2.0,
               t14=0.9, t15=-0.4, t16=0.9, t18=2.7, t19=0.2, t20=4.6, t21=1.1)  # fmt: skip
    return case("clinic-01", context, "Why is the patient coughing, and what was done?", tokens, whole, pieces=pieces)


def hostile() -> Case:
    """Every field that can hold text holds an attack."""
    context = f"Quiet start. {HOSTILE} Quiet end."
    tokens = ["fine", HOSTILE, "\n\n", "\x1b[2J", " end"]
    pieces = [
        piece(context, "Quiet start. ", HOSTILE, [0.001] * 5, document=HOSTILE),
        piece(context, HOSTILE, "s1", [0.5, 9.0, 0.0, 1.0, -2.5], repeats=(HOSTILE,), redundant=True),
        piece(context, " Quiet end.", "s2", [0.0001] * 5),
        piece(context, "Quiet", HOSTILE, [0.2] * 5, kind="value"),
    ]
    return case(
        HOSTILE, context, HOSTILE, tokens, [0.5, 9.5, 0.0, 1.0, -3.0], pieces=pieces,
        model=HOSTILE, template=HOSTILE, unit=HOSTILE, dtype=HOSTILE, weights_sha256=None, placebo_nats=None,
        documents=(DocumentRange(name=HOSTILE, start=0, end=len(context)),), warnings=(HOSTILE,), truncated_tokens=12,
        samples=(SampledResponse(text=HOSTILE, tokens=(HOSTILE,), whole_nats=1.0, piece_nats=(0.0, 1.0, 0.0, 0.0)),),
        whole_mean_nats=1.0, whole_interval_nats=(0.5, 1.5), whole_worst_nats=1.0,
    )  # fmt: skip


def overlapping() -> Case:
    """A sliding window: 4-word pieces that start every two words."""
    context = "the red lantern above the north gate goes out at nine when Ibbe the keeper sleeps"
    text_words = context.split()
    tokens = ["At", " nine", "."]
    texts = [" ".join(text_words[start : start + 4]) for start in range(0, len(text_words) - 3, 2)]
    nats = [[0.1 * k, 0.7 if "nine" in text else 0.02, 0.0003] for k, text in enumerate(texts)]
    pieces = [piece(context, text, f"g{k}", nats[k]) for k, text in enumerate(texts)]
    whole = [0.9, 3.4, 0.001]
    return case("lantern", context, "When does the lantern go out?", tokens, whole, pieces=pieces, unit="ngram:4:2")


def sampled() -> Case:
    """Four sampled responses, with mean, interval and worst."""
    context = "The vault code is 7731. The vault is green."
    tokens = ["The", " code", " is", " 7731", "."]
    pieces = [
        piece(context, "The vault code is 7731. ", "s0", [0.1, 1.2, 0.3, 11.4, 0.2],
              mean_nats=9.25, interval_nats=(4.125, 13.5), worst_nats=15.75),
        piece(context, "The vault is green.", "s1", [0.01, -0.2, 0.0, 0.05, 0.0],
              mean_nats=0.375, interval_nats=(0.25, 0.625), worst_nats=0.875),
    ]  # fmt: skip
    samples = [
        SampledResponse(text=text, tokens=tuple(text.split()), whole_nats=nats, piece_nats=(0.9 * nats, 0.3))
        for text, nats in [("It is 7731.", 15.9), ("I cannot say.", 2.25), ("7731", 12.5), ("The code is 7731.", 13.1)]
    ]
    return case(
        "vault", context, "What is the code?", tokens, [0.2, 1.3, 0.3, 11.9, 0.2], pieces=pieces, samples=samples,
        whole_mean_nats=10.94, whole_interval_nats=(5.21, 14.5), whole_worst_nats=15.9,
    )  # fmt: skip


def joined(texts: dict[str, str]) -> tuple[str, list[DocumentRange]]:
    """Texts between empty lines, and where each stands; none of them is within another."""
    context = "\n\n".join(texts.values())
    starts = {name: context.index(text) for name, text in texts.items()}
    return context, [DocumentRange(name=n, start=at, end=at + len(texts[n])) for n, at in starts.items()]


def several_documents() -> Case:
    """Three retrieved documents, one right-to-left, the context too long for the window."""
    texts = {
        "minutes.txt": "The council met on Tuesday. Mayor Quillon opened the bridge.",
        "radio.txt": "גשר חדש נפתח בעיר. The bridge cost nine million.",
        "ad.txt": "Fresh bread daily at Pim's.",
    }
    context, documents = joined(texts)
    tokens = ["Nine", " million", "."]
    measured = zip(texts.items(), ([0.06, 0.01, 0.0], [3.1, 1.4, 0.02], [0.0002, 0.0, 0.0001]), strict=True)
    pieces = [piece(context, text, f"d{i}", nats, document=name) for i, ((name, text), nats) in enumerate(measured)]
    return case(
        "bridge", context, "What did the bridge cost?", tokens, [3.4, 1.6, 0.1], pieces=pieces, documents=documents,
        unit="document", removal="mask", truncated_tokens=204, cid_lambda=0.5, temperature=0.8,
        response=Response(text="Nine million.", tokens=tuple(tokens), sampled=False, seed=None),
        warnings=("The response was given, not sampled by this model.",),
    )  # fmt: skip


def disclosing(hostile: str = "") -> Case:
    """A telephone number that two documents say, a name, and content of two sentences together that nothing calls
    sensitive; a value that the model says anyway stays unmarked. `hostile` stands in every text.
    """
    texts = {
        f"crm/4411{hostile}": f"Odile Fenwarren keeps{hostile} bees. Call her on 555-010-2231.",
        "wiki": "Bees swarm in May. Odile’s line is 555-010-2231. Hives are moved at night.",
    }
    context, documents = joined(texts)
    tokens = ["Ask", " O", "dile", " Fenwarren", ",", " 555", "-010", "-2231", ",", " about", " moving", " hives",
              " in", " May", "."]  # fmt: skip
    whole = [0.1, 4.0, 2.5, 6.5, 0.0, 12.0, 9.0, 11.0, 0.1, 0.2, 3.5, 2.5, 0.3, 2.25, 0.0]
    rows = [
        ("Odile Fenwarren", "s0", documents[0].name, {1: 4.0, 2: 2.5, 3: 6.5}),
        ("Call her on 555-010-2231.", "s1", documents[0].name, {5: 3.0, 6: 2.0, 7: 2.0}),
        ("Bees swarm in May.", "s2", "wiki", {13: 2.0}),
        ("Odile’s line is 555-010-2231.", "s3", "wiki", {5: 2.0, 6: 1.0, 7: 2.0}),
        ("Hives are moved at night.", "s4", "wiki", {10: 2.0, 11: 2.0}),
    ]
    pieces = [
        piece(context, text, name, [moved.get(t, 0.001) for t in range(len(tokens))], document=document)
        for text, name, document, moved in rows
    ]
    response = "".join(tokens)

    def source(text: str, number: int) -> Source:
        start = context.index(text, pieces[number].start)
        return Source(
            piece=pieces[number].name, document=pieces[number].document, text=text, start=start,
            end=start + len(text), nats=5.0, alone_nats=20.0,
        )  # fmt: skip

    def disclosure(text: str, first: int, last: int, kind: str, *sources: Source, **more: Any) -> Disclosure:
        nats = sum(whole[first : last + 1])
        made = Disclosure(
            text=text, start=response.index(text), end=response.index(text) + len(text), first_token=first,
            last_token=last, kind=kind, found_by=None if kind == "other" else "recogniser", relation="copied",
            nats=nats, interval_nats=(nats - 0.01, nats + 0.01), posterior=0.99, surprise_nats=nats + 1,
            placebo_nats=0.5, floor_nats=3.0, evidence="scores", document=sources[0].document, source=sources[0].text,
            sources=sources,
        )  # fmt: skip
        return replace(made, **more)

    disclosures = (
        disclosure("Odile Fenwarren", 1, 3, f"person{hostile}", source("Odile Fenwarren", 0)),
        disclosure("555-010-2231", 5, 7, "phone", source("555-010-2231", 1), source("555-010-2231", 3)),
        disclosure("about", 9, 9, "name", source("Bees", 2), evidence=None),
        disclosure(
            "moving hives in May", 10, 13, "other", source("Hives are moved at night.", 4),
            source("Bees swarm in May.", 2), relation="inferred",
        ),
    )  # fmt: skip
    return case(
        "bees", context, "Whom do I ask?", tokens, whole, pieces=pieces, documents=documents, disclosures=disclosures
    )


def every_case() -> list[Case]:
    return [clinic(), hostile(), overlapping(), sampled(), several_documents()]


def small(number: int) -> Case:
    """One of a thousand: three sentences, eight tokens."""
    context = f"Entry {number}. The parcel for Aldo Wisk weighs {number % 17} kg. It ships on Friday."
    tokens = ["It", " weighs", f" {number % 17}", " kg", " and", " ships", " Friday", "."]
    pieces = [
        piece(context, f"Entry {number}. ", "s0", [0.0123, 0.002] * 4),
        piece(context, f"The parcel for Aldo Wisk weighs {number % 17} kg. ", "s1", [0.31, 1.27, 4.83, 0.0417] * 2),
        piece(context, "It ships on Friday.", "s2", [0.0213, -0.117, 0.00514, 1.31] * 2),
    ]
    return case(f"parcel-{number}", context, "What about the parcel?", tokens, [0.4, 1.5, 4.9, 1.2] * 2, pieces=pieces)
