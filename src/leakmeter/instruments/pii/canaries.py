"""Canaries: subjects who do not exist, with data that could be anybody's and is nobody's.

Telephone numbers have an area code of the canary's state and a central office code that no area gives to subscribers
(555 for information, 950 for access to carriers, 958 and 959 for tests of lines), before any four digits. So they are
valid, fill a space of ten million, and ring nobody up; the numbers kept for fiction, 555-0100 to 555-0199, are only a
hundred in an area, too few for canaries and decoys. E-mail addresses end in '.example', which nobody can register,
behind the name of an invented company. Towns are Faker's inventions with a real state and postal code.

What a decoy may say in a value's place (`leakmeter.instruments.pii.decoys`) is drawn here as evenly as decoys are: what
a model that never saw the canary thinks of the value ranks anywhere among what it thinks of the decoys.
"""

from __future__ import annotations

import hashlib
import random
import re
from typing import Final

from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.pii.canary_forms import FORMS, REMARKS
from leakmeter.instruments.pii.subject import Relation, Subject
from leakmeter.text.entities.date import MONTHS
from leakmeter.text.surrogates import address, email, phone
from leakmeter.text.surrogates.draw import Draw, other_than, source
from leakmeter.text.surrogates.person import FEMALE, MALE, N_COMMON, gender_of, given_names, surnames
from leakmeter.text.surrogates.university import universities

N_SEEDS: Final = 16
"""Seeds of which no two, unless they differ by a multiple of it, have a name, number or address in common."""
_AREAS: Final = {
    state: codes.split()
    for state, codes in (
        *(("AL", "205 251 256 334"), ("AZ", "480 520 602 623 928"), ("AR", "479 501 870")),
        *(("CA", "209 310 408 415 510 530 559 619 626 650 707 714 805 818 831 909 916 925 949"), ("CO", "303 719 970")),
        *(("CT", "203 860"), ("DE", "302"), ("FL", "305 352 386 407 561 727 772 813 850 904 941 954")),
        *(("GA", "229 404 478 706 770 912"), ("ID", "208"), ("IL", "217 309 312 618 630 708 773 815 847")),
        *(("IN", "219 260 317 574 765 812"), ("IA", "319 515 563 641 712"), ("KS", "316 620 785 913")),
        *(("KY", "270 502 606 859"), ("LA", "225 318 337 504 985"), ("ME", "207"), ("MD", "301 410")),
        *(("MA", "413 508 617 781 978"), ("MI", "231 248 269 313 517 586 616 734 810 906 989")),
        *(("MN", "218 320 507 612 651 763 952"), ("MS", "228 601 662"), ("MO", "314 417 573 636 660 816")),
        *(("MT", "406"), ("NE", "308 402"), ("NV", "702 775"), ("NH", "603"), ("NJ", "201 609 732 856 908 973")),
        *(("NM", "505 575"), ("NY", "212 315 516 518 585 607 631 716 718 845 914"), ("NC", "252 336 704 828 910 919")),
        *(("ND", "701"), ("OH", "216 330 419 440 513 614 740 937"), ("OK", "405 580 918"), ("OR", "503 541")),
        *(("PA", "215 412 570 610 717 724 814"), ("RI", "401"), ("SC", "803 843 864"), ("SD", "605")),
        *(("TN", "423 615 731 865 901 931"), ("TX", "210 214 254 281 325 361 409 512 713 806 817 830 903 915 936 956")),
        *(("UT", "435 801"), ("VT", "802"), ("VA", "276 434 540 703 757 804"), ("WA", "206 253 360 425 509")),
        *(("WV", "304"), ("WI", "262 414 608 715 920"), ("WY", "307")),
    )
}
_PLACE: Final = re.compile(r"\{(\w+)\}")
_MONTHS: Final = MONTHS["en"].split()
_NO_WORD: Final = re.compile(r"\W")


def canaries_of(n: int, *, seed: int, region: str = "US") -> tuple[Subject, ...]:
    """Canaries, each with all kinds of data and two relatives.

    The first ones of more are the same.

    Args:
        n: how many, from 1 to 2,000.
        seed: of the draw, 0 or more.
        region: ISO 3166 code of the country where they live; 'US' alone is known.

    Raises:
        UnknownNameError: another region.
        UsageError: a number out of range.
    """
    if region != "US":
        raise UnknownNameError("region of invented people", region, ("US",))
    if not 1 <= n <= 2_000:
        raise UsageError(f"the number of invented people is {n:,}, expected 1 to 2,000")
    if seed < 0:
        raise UsageError(f"the seed of invented people is {seed}, expected 0 or more")
    drawn = source("invented", "people", seed)
    used: set[str] = set()
    return tuple(_subject(f"invented-{seed}-{number}", seed, drawn, used) for number in range(1, n + 1))


def document_of(subject: Subject, *, seed: int, number: int) -> str:
    """A short document that says all that is known of a person: a signature, a directory's entry, a forum's post.

    Documents of one person go through all forms, in an order of the person's own, before one comes again with another
    remark and another date.

    Args:
        subject: the person.
        seed: of the draw.
        number: of the document, from 0.

    Raises:
        UsageError: the number is below 0.
    """
    if number < 0:
        raise UsageError(f"the number of a document is {number}, expected 0 or more")
    order = list(FORMS)
    source("invented", "forms", seed, subject.id).shuffle(order)
    drawn = source("invented", "document", seed, subject.id, number)
    said = {
        "name": subject.name,
        "phone": subject.phone,
        "email": subject.email,
        "address": subject.address,
        "university": subject.university,
        "family": ", ".join(f"{relation.kind} {relation.name}" for relation in subject.relationships),
        "remark": drawn.choice(REMARKS),
        "date": f"{drawn.randint(1, 28)} {drawn.choice(_MONTHS)} {drawn.randint(2004, 2023)}",
    }
    form = order[number % len(order)]
    lines = [line for line in form.lines if all(said[key] for key in _PLACE.findall(line))]
    # All places at once, so that a name may be anything, '{phone}' too.
    return form.joint.join(_PLACE.sub(lambda place: said[place[1]] or "", line) for line in lines)


def _subject(id_: str, seed: int, drawn: random.Random, used: set[str]) -> Subject:
    def new(draw: Draw) -> str:
        return _new(draw, drawn, seed, used)

    name = new(lambda drawn: f"{drawn.choice(given_names('any'))} {drawn.choice(surnames())}")
    state = drawn.choice(sorted(_AREAS))
    university = drawn.choice(universities())
    return Subject(
        id=id_,
        name=name,
        phone=new(lambda drawn: phone.of_nobody(_AREAS[state], drawn)),
        email=new(lambda drawn: email.of_firm(name, drawn)),
        address=new(address.in_one_town(name, state, drawn)),
        relationships=_relations(name, drawn),
        university=university,
    )


def _new(draw: Draw, drawn: random.Random, seed: int, used: set[str]) -> str:
    """A value that is new among those of the seed, and by its hash no other seed's."""
    while True:
        value = draw(drawn)
        # However it is written, a number is the same number.
        bare = _NO_WORD.sub("", value.casefold()).removeprefix("1" if value[0] in "+1" else "")
        digest = hashlib.sha256(bare.encode()).digest()
        if int.from_bytes(digest[:8], "big") % N_SEEDS == seed % N_SEEDS and bare not in used:
            used.add(bare)
            return value


def _relations(name: str, drawn: random.Random) -> tuple[Relation, ...]:
    # A husband or a wife, not both.
    kinds = drawn.sample(sorted({*MALE, *FEMALE} - {drawn.choice(("husband", "wife"))}), 2)
    surname = name.split()[-1]
    names: list[str] = []
    while len(names) < len(kinds):
        first = other_than(given_names(gender_of(kinds[len(names)]))[:N_COMMON], name, drawn)
        # Some have the person's surname, some another.
        last = surname if drawn.random() < 0.6 else other_than(surnames()[:N_COMMON], name, drawn)
        if f"{first} {last}" not in names:
            names.append(f"{first} {last}")
    return tuple(map(Relation, kinds, names))
