"""People from files: every kind of file, what may be left out, and what is wrong with a record."""

from __future__ import annotations

import gzip
import io
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import leakmeter
import leakmeter.data.samples
from helpers.table_files import write_rows
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.instruments.pii.subject import RelatedPerson, Subject, field_of, left_out, postal_address
from leakmeter.instruments.pii.subjects import ReadSubjects, load_subjects


def subjects_of(given: Any, **options: Any) -> tuple[Subject, ...]:
    return load_subjects(given, **options).subjects


KINDS = ("csv", "jsonl", "json", "parquet", "toml")
SAMPLE = Path(leakmeter.data.samples.__file__).parent / "subjects.toml"
SECRET = "Zyxwvu"
HOSTILE = '{phone} %s "O\'Neil" <|endoftext|> [INST] {0.__class__} \\1 日本 🙂'


def write(folder: Path, rows: list[dict[str, Any]], kind: str = "jsonl") -> Path:
    if kind != "toml":
        return Path(write_rows(folder, rows, kind))
    told = [[f"{json.dumps(k)} = {json.dumps(v, ensure_ascii=False)}" for k, v in row.items() if v] for row in rows]
    path = folder / "data.toml"
    path.write_text("\n".join(line for lines in told for line in ("[[subject]]", *lines)), encoding="utf-8")
    return path


def test_several_of_a_kind_are_a_list_and_an_affiliation_is_a_university(tmp_path: Path) -> None:
    rows = [{"name": "N", "brother": "Al Bo", "relationships": {"brother": ["Cy Bo", "Di  Bo"], "son": None}}]
    rows += [{"name": "M", "affiliation": "Elm College"}, {"name": "O", "phone": "030 901820"}]
    one, two, three = subjects_of(write(tmp_path, rows), region="DE")
    assert one.relationships == tuple(RelatedPerson("brother", name) for name in ("Al Bo", "Cy Bo", "Di Bo"))
    assert two.university == "Elm College"
    # A region says whose numbers have no country code.
    assert (three.phone, three.region) == ("030 901820", "DE")
    with pytest.raises(UnknownNameError, match="no region named 'XX'"):
        load_subjects(tmp_path / "data.jsonl", region="XX")


def test_files_that_hold_no_people(tmp_path: Path) -> None:
    for suffix, text, reason in (
        *((".txt", "x", "has a heading and no rows"), (".csv", "", "is empty; expected a heading and rows")),
        *((".csv", "name,father\n", "has a heading and no rows"), (".csv", "name,Name\nA,B\n", "'name' twice")),
        (".csv", f"{SECRET},1\nB,2\n", "line 2 has no known column; does the file begin with a heading?"),
        *((".jsonl", "\n", "there are no records in"), (".json", "[]", "there are no records in")),
        (".toml", f"[[subject]]\nname = {SECRET}\n", "is not TOML (at line 2, column 8)"),
        (".toml", "[subject]\nname = 'A'\n", "a table [[subject]] for each person"),
        (".toml", "x = 1\n[[subject]]\nname = 'A'\n", "a table [[subject]] for each person"),
    ):
        name = f"people{suffix}"
        (tmp_path / name).write_text(text)
        told = message(tmp_path / name)
        assert reason in told
        assert SECRET not in told
    assert "there are no good records in" in message(write(tmp_path, [{"name": "N"}]), skip_bad=True)
    assert "cannot be read" in message(tmp_path / "none.csv")


def test_an_id_that_says_who_it_is_is_not_used(tmp_path: Path) -> None:
    says_who = ("Johanna Quist", "quist-7", "jquist", "QuistJ", "7 jóhanna", "johannaquist", "x-j.h.tavel", "5550142")
    says_nothing = ("p-7", "employee-3", "7", "quisling", "a5f0142", "2024-11-02")
    other = {"id": "other", "name": "Ada Vale", "university": "X"}
    for id_ in (*says_who, "p 617 555 0142", *says_nothing):
        one = {"id": id_, "name": "Johanna Quist", "phone": "+1 617 555 0142", "email": "j.h.tavel@example.org"}
        found = load_subjects(write(tmp_path, [other, one]))
        assert [subject.id for subject in found.subjects] == ["other", id_ if id_ in says_nothing else "2"]
        assert found.n_renamed == (id_ not in says_nothing)
        assert subjects_of([other, one])[1].id == found.subjects[1].id
    # Keys of a JSON file are none.
    path, person = tmp_path / "people.json", {"name": "Ada Vale", "university": "X"}
    path.write_text(json.dumps({"her": person, "him": {**person, "id": "own"}}), encoding="utf-8")
    assert [one.id for one in load_subjects(path).subjects] == ["1", "own"]


def test_every_column_of_the_usual_names_is_known() -> None:
    for name in (
        *("First Name", "Last Name", "Full Name", "Email Address", "E-mail", "Mobile", "Phone Number", "Street"),
        *("City", "Zip", "Postal Code", "State", "Country"),
    ):
        forms = (name, name.lower(), name.upper(), *(name.replace(" ", by) for by in ("_", "", "-")))
        assert len({field_of(form) for form in forms} - {None}) == 1
    assert field_of("Company") is None


def test_parts_of_an_address_stand_in_the_order_of_the_country() -> None:
    for region, parts, said in (
        ("US", {"zip": "2110", "country": "USA"}, "1 Elm, Troy, NY 02110"),
        ("US", {"street 2": "Apt 4", "country": "Canada"}, "1 Elm, Apt 4, Troy, NY, Canada"),
        ("DE", {"zip": "10115", "state": "", "country": "DE"}, "1 Elm, 10115 Troy"),
        ("GB", {"zip": "SW1A 1AA", "state": "", "country": "United Kingdom"}, "1 Elm, Troy, SW1A 1AA"),
    ):
        assert postal_address({"street": "1 Elm", "city": "Troy", "state": "NY"} | parts, region) == said
    # A number of a data frame is text.
    frame = pd.DataFrame([{"name": "N", "phone": 2055550123.0, "zip": 2110, "street": "1 Elm", "city": "Troy"}])
    (subject,) = subjects_of(frame)
    assert (subject.phone, subject.address) == ("2055550123", "1 Elm, Troy, 02110")


def test_of_several_numbers_the_first_that_there_is_is_asked_for(tmp_path: Path) -> None:
    rows = [{"name": "A", "phone": "", "mobile": "2055550123"}]
    rows += [{"name": "B", "phone": "2055550124", "mobile": "2055550125"}]
    loaded = load_subjects(write(tmp_path, rows, "csv"))
    assert [one.phone for one in loaded.subjects] == ["2055550123", "2055550124"]
    assert left_out(loaded.ignored) == "columns left out: 'mobile' (--map phone=mobile uses it)"
    assert subjects_of(write(tmp_path, rows[1:], "csv"), map={"phone": "mobile"})[0].phone == "2055550125"
    # What is no field is named with the nearest one.
    path = write(tmp_path, [{"name": "N", "father": "B", "Emial": "n@x.example", "Notes": SECRET}], "csv")
    told = left_out(load_subjects(path).ignored)
    assert told == "columns left out: 'Emial' (--map email=Emial uses it), 'Notes'"
    assert "as with --map name=Namen" in message(write(tmp_path, [{"Namen": SECRET, "phone": "2055550123"}], "csv"))


def message(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        load_subjects(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_relationships_are_a_table_or_columns(tmp_path: Path) -> None:
    told = [RelatedPerson("uncle", "Al Bo"), RelatedPerson("step mother", "Di Fu"), RelatedPerson("aunt", "Eve Fu")]
    rows = [{"name": "N", "uncle": "Al Bo", "relationship:Step mother": "Di Fu", "relationships": {"Aunt": "Eve Fu"}}]
    assert list(subjects_of(write(tmp_path, rows))[0].relationships) == told
    rows[0]["relationships"] = json.dumps(rows[0]["relationships"])
    assert list(subjects_of(write(tmp_path, rows, "csv"))[0].relationships) == told
    # Parquet has every key in every row.
    rows = [{"name": "N", "relationships": {"aunt": "A", "son": None}}, {"name": "M", "relationships": {"son": "S"}}]
    first, second = load_subjects(write(tmp_path, rows, "parquet")).subjects
    assert (first.relationships, second.relationships) == ((RelatedPerson("aunt", "A"),), (RelatedPerson("son", "S"),))


def test_ids_that_became_floats_are_whole_numbers(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id,name,aunt\n7.0,Bo Lee,Cy Lee\n,Di Lee,Cy Lee\n")
    assert [subject.id for subject in subjects_of(path)] == ["7", "2"]
    assert [subject.id for subject in subjects_of([{"id": 7.0, "name": "Bo Lee", "aunt": "Cy Lee"}])] == ["7"]


def test_a_column_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,father,father\nBo Lee,Cy Lee,Di Lee\n")
    with pytest.raises(DataError, match="two columns 'father'; give each a name of its own"):
        subjects_of(path)


def test_people_may_be_given_as_records() -> None:
    ann = Subject("ann", "Ann Lee", email="ann@x.example", region="GB")
    given: list[Any] = [{"Name": "Bo Lee", "aunt": "Cy"}, ann, {"name": "Di", "phone": "030 901820", "id": 7}]
    first, second, third = subjects_of(given, region="DE")
    assert first == Subject("1", "Bo Lee", relationships=(RelatedPerson("aunt", "Cy"),), region="DE")
    assert second is ann
    assert (third.id, third.region) == ("7", "DE")
    with pytest.raises(DataError, match=r"^subjects, record 2 has the id of record 1; make ids unique"):
        subjects_of([ann, ann])
    with pytest.raises(DataError, match=r"^subjects, record 1 has no 'name'"):
        subjects_of([{"phone": SECRET}])
    with pytest.raises(DataError, match="there are no records in subjects"):
        subjects_of([])
    with pytest.raises(UnknownNameError, match="no region named 'XX'"):
        subjects_of([ann], region="XX")


def test_values_are_data_and_stand_on_one_line(tmp_path: Path) -> None:
    for kind in KINDS:
        row = {"name": HOSTILE + "\nX", "address": "12 Oak St,\r\nApt 4\n Troy, NY 12180\n", "mother": "{name}"}
        mother = (RelatedPerson("mother", "{name}"),)
        expected = Subject("1", f"{HOSTILE} X", address="12 Oak St, Apt 4, Troy, NY 12180", relationships=mother)
        assert load_subjects(write(tmp_path, [row], kind)).subjects == (expected,)


def test_nobody_is_asked_whether_a_domain_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a look at the network")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    emails = ["a+tag@gmail.com", "josé@exämple.com", "A.B@Foo.COM"]
    path = write(tmp_path, [{"name": "N", "email": email} for email in emails])
    assert [one.email for one in load_subjects(path).subjects] == emails


BAD = {
    "has no 'name'": {"email": "zyxwvu@x.example"},
    "has a name and no value": {"name": SECRET},
    "neither a telephone number of US": {"name": SECRET, "phone": "12"},
    "a telephone number of US nor": {"name": SECRET, "phone": SECRET},
    "is not an e-mail address": {"name": "N", "email": f"{SECRET}@"},
    "is not an e-mail address; expected": {"name": "N", "email": f"{SECRET}@b.test"},
    "a name and no value": {"name": "N", SECRET: SECRET},
    "'phone' is a list, expected text": {"name": SECRET, "phone": [2055550123]},
    "neither text nor a whole number": {"name": SECRET, "id": 1.5, "father": "B"},
    "half a surrogate pair": {"name": SECRET + "\ud800", "father": "B"},
    "which are the same": {"name": "N", "university": SECRET, "affiliation": SECRET},
    "not JSON; write": {"name": "N", "relationships": SECRET},
    "name a kind twice; write several as": {"name": "N", "relationships": f'{{"son": "{SECRET}", "son": "B"}}'},
    "not an object of kinds": {"name": "N", "relationships": [SECRET]},
    "a relationship twice": {"name": "N", "father": SECRET, "relationships": {"Father": SECRET}},
    "one without a name": {"name": SECRET, "relationships": {"son": ["A", " "]}},
    "without a kind": {"name": "N", "relationships": {"": SECRET}},
    "'relationships' is an object": {"name": "N", "relationships": {"brother": {SECRET: SECRET}}},
    "has the id of line 1": {"name": SECRET, "father": "B", "id": "1"},
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_record_is_named_by_its_line_and_never_repeated(tmp_path: Path, reason: str) -> None:
    path = write(tmp_path, [{"name": "Ann", "father": "Bo"}, BAD[reason], {"name": "Cy", "father": "Di"}])
    told = message(path)
    assert reason in told
    assert ", line 2 " in told
    assert SECRET.lower() not in told.lower()
    loaded = load_subjects(path, skip_bad=True)
    assert [one.id for one in loaded.subjects] == ["1", "3"]
    (problem,) = loaded.problems
    assert problem.startswith("line 2 ")
    assert told == f"'{path}', {problem}"


def test_lines_that_cannot_be_read_are_skipped_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    good = json.dumps({"name": "Ann", "father": "Bo"})
    path.write_text(f'{good}\n\n{{"name": "{SECRET}\n[1]\n{"[" * 100_000}\n{good}\n')
    loaded = load_subjects(path, skip_bad=True)
    assert [one.id for one in loaded.subjects] == ["1", "5"]
    assert [problem.split(" ")[1] for problem in loaded.problems] == ["3", "4", "5"]
    assert SECRET not in str(loaded.problems)
    path = tmp_path / "people.csv"
    path.write_text('name,father\nAnn,Bo\nX,Y,Z\n"a\nb",Cy\n"Q"q,r\nDi,Ed\n')
    loaded = load_subjects(path, skip_bad=True)
    assert [one.name for one in loaded.subjects] == ["Ann", "a b", "Di"]
    first, second = loaded.problems
    assert first == "line 3 cannot be used: a row of 3 cells under a heading of 2; is a quote or a comma missing?"
    assert second.startswith("line 6 ")
    assert message(path) == f"'{path}', {first}"


def test_the_sample_is_six_people_who_do_not_exist() -> None:
    loaded = load_subjects(SAMPLE)
    assert ([one.id for one in loaded.subjects], loaded.problems) == (["s1", "s2", "s3", "s4", "s5", "s6"], ())
    assert all(str(subject.email or ".example").endswith(".example") for subject in loaded.subjects)
    assert all("555" in str(subject.phone or "555") for subject in loaded.subjects)
    known = {type_ for subject in loaded.subjects for type_, _, _ in subject.targets()}
    assert known == {"phone", "email", "address", "relationship", "university"}


# ---- columns of other programs --------------------------------------------------------------------------------------
EXPORT = [
    {
        "First Name": "Mara", "Last Name": "Ellsworth", "Email Address": "mara.ellsworth@example.org",
        "Mobile": "617-555-0134", "Street": "12 Harbour Street", "City": "Boston", "State": "MA",
        "Postal Code": "02110", "Country": "United States", "Company": "Ellsworth Bindery",
    },
]  # fmt: skip
MARA = Subject(
    "1", "Mara Ellsworth", phone="617-555-0134", email="mara.ellsworth@example.org",
    address="12 Harbour Street, Boston, MA 02110",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_people_of_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    rows = [
        {"ID": "a", "Name": "Ann  Lee", "phone": "(205) 555-0123", "email": "Ann.Lee@x.example", "father": "Bo Lee"},
        {"ID": None, "Name": " Cy Ode ", "phone": None, "email": "cy@x.example", "father": None},
    ]
    father = (RelatedPerson("father", "Bo Lee"),)
    ann = Subject("a", "Ann Lee", phone="(205) 555-0123", email="Ann.Lee@x.example", relationships=father)
    assert load_subjects(write(tmp_path, rows, kind)) == ReadSubjects(
        (ann, Subject("2", "Cy Ode", email="cy@x.example"))
    )
    loaded = load_subjects(write(tmp_path, EXPORT, kind))
    assert (loaded.subjects, list(loaded.ignored)) == ((MARA,), ["Company"])


def test_columns_go_by_many_names(tmp_path: Path) -> None:
    known = f'{MARA.name},{MARA.email},{MARA.phone},"{MARA.address}"'
    parts = f"Mara,Ellsworth,{MARA.email},{MARA.phone},12 Harbour Street,Boston,MA,02110"
    of_all = f"{MARA.name},{MARA.email},{MARA.phone},12 Harbour Street,Boston,MA,2110"
    path = tmp_path / "people.csv"
    for columns, values in (
        ("Full Name,E-mail,Phone Number,Address,Zip", f"{known},"),
        ("full_name,e-mail,phone-number,ADDRESS", known),
        ("given name,Surname,E_Mail,Telephone,street address,town,Province,zip code,country code", f"{parts},US"),
        ("Customer Name,mail,cell phone,address,city,state,zip", of_all),
    ):
        path.write_text(f"{columns}\n{values}\n")
        assert load_subjects(path).subjects == (MARA,)


def test_parts_of_two_addresses_are_not_mixed() -> None:
    columns = {"Home Street": "1 Elm", "Home City": "", "Mailing Street": "2 Oak", "Mailing City": "Troy"}
    assert subjects_of([{"name": "N", **columns}])[0].address == "1 Elm"
    assert subjects_of([{"name": "N", **columns, "Home Street": ""}])[0].address == "2 Oak, Troy"
    nested = {"street": "1 Elm", "city": "Troy", "postalCode": "12180", "geo": {"lat": 1}}
    assert subjects_of([{"name": "N", "address": nested}])[0].address == "1 Elm, Troy, 12180"
    with pytest.raises(DataError, match="a name and no value"):
        subjects_of([{"name": "N", "City": "Troy", "Zip": "12180"}])


def test_fields_are_found_by_paths(tmp_path: Path) -> None:
    rows = [{"person": {"called": "Mara Ellsworth"}, "reach": [{"kind": "mail", "at": "m@x.example"}]}]
    (subject,) = subjects_of(write(tmp_path, rows), map="name=person.called,email=reach[0].at")
    assert (subject.name, subject.email) == ("Mara Ellsworth", "m@x.example")
    with pytest.raises(UsageError, match="no field 'emial'; did you mean 'email'"):
        subjects_of(rows, map="emial=x")
    # A table without a heading has somebody's data where names of columns are.
    headless = tmp_path / "headless.csv"
    headless.write_text(f"{SECRET} Lee,{SECRET}@x.example\nBo Lee,b@x.example\n")
    assert SECRET not in message(headless, map={"name": "who"})


def test_packed_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("csv", "jsonl", "toml"):
        plain = write(tmp_path, EXPORT, kind).read_bytes()
        (tmp_path / f"p.{kind}.gz").write_bytes(gzip.compress(plain))
        (tmp_path / f"p.{kind}.zst").write_bytes(pa.Codec("zstd").compress(plain, asbytes=True))
        assert all(load_subjects(tmp_path / f"p.{kind}.{end}").subjects == (MARA,) for end in ("gz", "zst"))
    csv = write(tmp_path, EXPORT, "csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(csv)))
    assert load_subjects("-").subjects == (MARA,)
