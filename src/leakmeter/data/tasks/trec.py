"""TREC questions (Li and Roth 2002; Hovy et al. 2001): six kinds of answers asked for."""

from __future__ import annotations

from leakmeter.data.tasks import Hub, LabelColumn, TaskData
from leakmeter.text.exemplars import Task

_TASK = Task(
    name="trec",
    instruction=(
        "Classify the questions based on whether their answer type is a Number, Location, Person, Description, "
        "Entity, or Abbreviation. Output only the question type (no explanations or extra text) as the first token."
    ),
    fields=(("text", "Question"),),
    answer="Answer Type",
    labels=(
        ("NUM", "Number"),
        ("LOC", "Location"),
        ("HUM", "Person"),
        ("DESC", "Description"),
        ("ENTY", "Entity"),
        ("ABBR", "Abbreviation"),
    ),
    label_column="coarse",
)
_EARLIER = ("DESC", "ENTY", "ABBR", "HUM", "NUM", "LOC")
_LATER = ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM")

TASK = TaskData(
    task=_TASK,
    texts=((("text",), ("question",)),),
    # The hub's versions number the six in two orders; a number under 'label' may be one of the fifty finer types.
    labels=(
        LabelColumn("coarse"),
        LabelColumn("label_coarse_original"),
        LabelColumn("coarse_label", _LATER),
        LabelColumn("label-coarse", _EARLIER),
        LabelColumn("label_coarse", _EARLIER),
        LabelColumn("label"),
    ),
    # The original, CogComp/trec, is a script, which the `datasets` library does not run any more.
    hub=Hub("SetFit/TREC-QC", "default"),
)
