"""Write the given names that recognisers know, src/leakmeter/text/entities/packs/given_names.txt, one a line.

pip install nomquamgender wordfreq english-words; python tools/list_given_names.py

Names are those that several public sources of nomquamgender (MIT licence) have, in small letters without accents. Words
that a language writes small or often says are left out: they would be called people.
"""

from __future__ import annotations

import json
import unicodedata
from importlib import resources
from importlib.metadata import distribution
from pathlib import Path

from english_words import get_english_words_set
from wordfreq import top_n_list

FILE = Path(__file__).parents[1] / "src/leakmeter/text/entities/packs/given_names.txt"
SOURCES = 5
"""Of the package's 36 sources, at least so many have a given name."""
SHORTEST = 3
FREQUENT = {"de": 80_000, "en": 40_000, **dict.fromkeys(("es", "fr", "it", "nl", "pl", "pt"), 20_000)}
"""So many of the most frequent words of a language are no names here: more of German, which writes nouns as names are
written, and of English, which has brands."""
ABOUT = f"""Given names of the world: those of {SOURCES} or more sources of nomquamgender 0.1.4 (MIT licence, below).
Small letters without accents, no words that are written small. Made by tools/list_given_names.py.

"""


def unaccented(word: str) -> str:
    letters = unicodedata.normalize("NFKD", word.casefold())
    return "".join(sign for sign in letters if not unicodedata.combining(sign))


def about() -> str:
    """The first lines of the list, with the licence of the names, which has to go with every copy."""
    licence = distribution("nomquamgender").read_text("LICENSE")
    if not licence:
        raise SystemExit("nomquamgender has no file LICENSE: the list would go without its licence")
    return "".join(f"# {line}".rstrip() + "\n" for line in (ABOUT + licence.strip()).splitlines())


def main() -> None:
    words = {word for word in get_english_words_set(["web2", "gcide"]) if word.islower()}
    words |= {unaccented(word) for language, most in FREQUENT.items() for word in top_n_list(language, most)}
    text = (resources.files("nomquamgender") / "name_data.json").read_text(encoding="utf-8")
    names = {name for name, (n_sources, *_) in json.loads(text).items() if n_sources >= SOURCES}
    kept = sorted({name for name in names if len(name) >= SHORTEST and name.isascii() and name.isalpha()} - words)
    FILE.write_text(about() + "\n".join(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
