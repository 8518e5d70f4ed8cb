"""Texts that say nothing of any case, in twelve languages and three forms: what an irrelevant text does to an answer.

An irrelevant text of another language, or of another form, would make an answer unlikely whatever it says; so the text
is chosen by the answer's language and form.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Final, Literal

import regex

TextForm = Literal["prose", "list", "json"]

_SENTENCES: Final[dict[str, tuple[str, ...]]] = {
    "en": (
        "The library opens at nine on weekdays.",
        "A bus stops near the park every half hour.",
        "Bread is baked before dawn.",
        "The lake is calm in the evening, and boats are tied to the pier.",
        "Tickets are sold at the counter on the left.",
    ),
    "de": (
        "Die Bücherei öffnet werktags um neun.",
        "Alle halbe Stunde hält ein Bus am Park.",
        "Das Brot wird vor Sonnenaufgang gebacken.",
        "Abends ist der See ruhig, und die Boote liegen am Steg.",
        "Karten gibt es am Schalter auf der linken Seite.",
    ),
    "fr": (
        "La bibliothèque ouvre à neuf heures en semaine.",
        "Un bus s'arrête près du parc toutes les demi-heures.",
        "Le pain est cuit avant l'aube.",
        "Le soir, le lac est calme et les bateaux sont amarrés au ponton.",
        "Les billets sont vendus au guichet de gauche.",
    ),
    "es": (
        "La biblioteca abre a las nueve entre semana.",
        "Un autobús para cerca del parque cada media hora.",
        "El pan se hornea antes del amanecer.",
        "Por la tarde el lago está tranquilo y las barcas quedan atadas al muelle.",
        "Las entradas se venden en la ventanilla de la izquierda.",
    ),
    "it": (
        "La biblioteca apre alle nove nei giorni feriali.",
        "Un autobus si ferma vicino al parco ogni mezz'ora.",
        "Il pane viene cotto prima dell'alba.",
        "La sera il lago è calmo e le barche sono legate al molo.",
        "I biglietti si vendono allo sportello di sinistra.",
    ),
    "pt": (
        "A biblioteca abre às nove nos dias úteis.",
        "Um autocarro para perto do parque a cada meia hora.",
        "O pão é cozido antes do amanhecer.",
        "À noite o lago está calmo e os barcos ficam presos ao cais.",
        "Os bilhetes são vendidos no balcão da esquerda.",
    ),
    "nl": (
        "De bibliotheek gaat op werkdagen om negen uur open.",
        "Elk half uur stopt er een bus bij het park.",
        "Het brood wordt voor zonsopgang gebakken.",
        "In de avond is het meer kalm en liggen de boten aan de steiger.",
        "Kaartjes zijn te koop aan het loket links.",
    ),
    "pl": (
        "Biblioteka jest otwarta w dni robocze od dziewiątej.",
        "Autobus zatrzymuje się przy parku co pół godziny.",
        "Chleb piecze się przed świtem.",
        "Wieczorem jezioro jest spokojne, a łodzie stoją przy pomoście.",
        "Bilety są sprzedawane w okienku po lewej stronie.",
    ),
    "tr": (
        "Kütüphane hafta içi saat dokuzda açılır.",
        "Parkın yanında her yarım saatte bir otobüs durur.",
        "Ekmek gün doğmadan önce pişirilir.",
        "Akşamları göl sakindir ve tekneler iskeleye bağlanır.",
        "Biletler soldaki gişede satılır.",
    ),
    "ru": (
        "Библиотека открывается по будням в девять часов.",
        "Автобус останавливается у парка каждые полчаса.",
        "Хлеб пекут до рассвета.",
        "Вечером озеро спокойно, и лодки привязаны к причалу.",
        "Билеты продают в кассе слева.",
    ),
    "zh": (
        "图书馆平日九点开门。",
        "公园旁边每半小时有一班公共汽车停靠。",
        "面包在天亮以前烤好。",
        "傍晚湖面平静，小船系在码头边。",
        "门票在左边的窗口出售。",
    ),
    "ja": (
        "図書館は平日の九時に開きます。",
        "公園の近くには三十分ごとにバスが止まります。",
        "パンは夜明け前に焼かれます。",
        "夕方の湖は静かで、船は桟橋につながれています。",
        "切符は左の窓口で売られています。",
    ),
}
LANGUAGES: Final = tuple(_SENTENCES)
_WORDS: Final = {
    "en": "a and are at for from have in is it not of on or that the this to was were will with you your",
    "de": "aber als am auch auf aus bei das dem den der die ein eine für hat ich im in ist mit nicht sie und von zu",
    "fr": "à au avec ce cette dans de des du elle en est et il la le les ne nous ou par pas pour que qui sur une vous",
    "es": "al con de del el en es esta este ha la las lo los no para pero por que se sin su sus un una y",
    "it": "al alla che con da del della di e gli ha i il in la le lo nel non per più si sono un una",
    "pt": "a ao as com da de do dos e é em foi na não no o os para por que se são sua um uma você",
    "nl": "aan al de dat die een en er het hij ik in is je met niet of om op te u uw van voor was wij zijn",
    "pl": "a ale czy dla do i jak jest która który lub na nie o od oraz po przez się są to w z za że",
    "tr": "ama bir bu da daha de değil en gibi için ile mi ne o olan olarak ve veya",
}
_SCRIPTS: Final = (("ja", r"[\p{Hiragana}\p{Katakana}]"), ("zh", r"\p{Han}"), ("ru", r"\p{Cyrillic}"))
_ITEM = regex.compile(r"^\s*(?:[-*•·]|\d+[.)])\s", regex.MULTILINE)
_ENOUGH_WORDS: Final = 3
"""Frequent words of a language that tell it."""
_MOST_WORDS: Final = 400
"""Of a text that are looked at."""


@cache
def _words_of() -> dict[str, frozenset[str]]:
    return {language: frozenset(words.split()) for language, words in _WORDS.items()}


def language_of(text: str, beside: str = "") -> str:
    """The language, one of `LANGUAGES`, that a text most likely is in; English where nothing tells. Where few words of
    the text do, those of what stands `beside` it count too: "I do" is Polish as well.

    Examples:
        >>> language_of("Der Termin ist am Montag, und Sie sind eingeladen.")
        'de'
        >>> language_of("I do not know."), language_of("I do not know.", "Who was at the harbour?")
        ('pl', 'en')
    """
    letters = regex.findall(r"\p{L}", text[: 10 * _MOST_WORDS])
    for language, script in _SCRIPTS:
        n = len(regex.findall(script, text[: 10 * _MOST_WORDS]))
        # A Japanese text has signs of both scripts; a few foreign signs make no text foreign.
        if n > (0.05 if language == "ja" else 0.3) * len(letters):
            return language
    counts = _counts(text)
    if max(counts.values()) < _ENOUGH_WORDS:
        counts += _counts(beside[: 10 * _MOST_WORDS])
    best = max(_WORDS, key=lambda language: counts[language])
    return best if counts[best] else "en"


def _counts(text: str) -> Counter[str]:
    """Of each language, how many of its frequent words a text has."""
    words = [word.casefold() for word in regex.findall(r"\p{L}+", text)[:_MOST_WORDS]]
    return Counter({language: sum(word in known for word in words) for language, known in _words_of().items()})


def form_of(text: str) -> TextForm:
    """Whether a text is JSON, a list of items, or prose."""
    stripped = text.strip()
    if stripped[:1] in ("{", "[") and stripped[-1:] in ("}", "]"):
        try:
            json.loads(stripped)
        except (ValueError, RecursionError):
            pass
        else:
            return "json"
    lines = [line for line in stripped.splitlines() if line.strip()]
    return "list" if len(lines) > 2 and 2 * len(_ITEM.findall(stripped)) >= len(lines) else "prose"


def irrelevant_text(language: str, form: TextForm, first: int = 0) -> str:
    """A text of five sentences that say nothing of any case.

    Args:
        language: one of `LANGUAGES`.
        form: as `form_of` tells it.
        first: sentence to begin with, from 0; those before it come last.
    """
    begun = first % len(_SENTENCES[language])
    sentences = (*_SENTENCES[language][begun:], *_SENTENCES[language][:begun])
    if form == "json":
        return json.dumps({"items": list(sentences)}, ensure_ascii=False, indent=1)
    if form == "list":
        return "\n".join(f"- {sentence}" for sentence in sentences)
    return ("" if language in ("zh", "ja") else " ").join(sentences)
