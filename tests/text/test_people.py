"""The unit `entity` and the list of disclosures call the same persons."""

from __future__ import annotations

import pytest

from leakmeter.text.entities import find, values
from leakmeter.text.entities.mention import PERSON

NAMING = {
    "Tobias Quillmere repairs the ferry engines. Quillmere answers on Mondays.": {"Tobias Quillmere", "Quillmere"},
    "Dr. Ellen Brandt saw Patient: Jonas Weiss on Monday. Brandt wrote to him.": {
        *("Ellen Brandt", "Jonas Weiss", "Brandt"),
    },
    "Mr Quillmere answered, and Odalin Quillmere left.": {"Quillmere", "Odalin Quillmere"},
    "Call Mr Quillmere or Anna Ek tomorrow.": {"Quillmere", "Anna Ek"},
    "Frau Müller und Klaus Becker wohnen in der Stadt. Der Becker ist nicht da.": {
        *("Müller", "Klaus Becker", "Becker"),
    },
    "Maria García López llamó. La señora García vive en Madrid.": {"Maria García López", "García"},
    "Name: Brewster, Odalys\nOdalys likes tea.": {"Brewster, Odalys", "Odalys"},
    "JOHN SMITH SIGNED. John Smith left. The smith came.": {"JOHN SMITH", "John Smith"},
    "Contact: Priya Raman <priya@x.example>; Priya wrote.": {"Priya Raman", "Priya"},
    "Paris is in France. Monday is not Tuesday. The Return Policy is long.": set(),
    "The tide is low at six. The harbour office opens at nine.": set(),
    "In May the rose was red; a mark of grace.": set(),
}


@pytest.mark.parametrize("text", NAMING)
def test_unit_and_list_agree_on_what_is_a_person(text: str) -> None:
    entities = find.find(text, [(0, len(text))], region="US")
    of_unit = {text[slice(*place)] for entity in entities if entity.type == PERSON for place in entity.mentions}
    listed = {text[v.start : v.end] for v in values.find(text, text, "", region="US") if v.type == PERSON}
    assert of_unit == listed == NAMING[text]


def test_a_name_by_its_shape_is_one_entity_wherever_it_is_said() -> None:
    text = "Tobias Quillmere repairs engines. Ask Quillmere, or the quillmere that is a tool."
    (entity,) = find.find(text, [(0, len(text))], region="US")
    assert [text[slice(*place)] for place in entity.mentions] == ["Tobias Quillmere"]
    text = text.replace("quillmere that", "pump that")
    (entity,) = find.find(text, [(0, len(text))], region="US")
    assert [text[slice(*place)] for place in entity.mentions] == ["Tobias Quillmere", "Quillmere"]


def test_a_part_of_a_name_by_its_shape_is_a_person_of_the_list() -> None:
    (value,) = values.find("Ask Quillmere.", "Tobias Quillmere repairs engines.", "", region="US")
    assert (value.type, value.found_by) == (PERSON, values.SHAPED)
