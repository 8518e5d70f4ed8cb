"""DBpedia-14 (Zhang et al. 2015): first sentences of encyclopedia articles about things of fourteen kinds."""

from __future__ import annotations

from leakmeter.data.tasks import Hub, LabelColumn, TaskData
from leakmeter.text.exemplars import Task

_TASK = Task(
    name="dbpedia14",
    instruction=(
        "Classify the documents based on whether they are about one of Company, School, Artist, Athlete, Politician, "
        "Transportation, Building, Nature, Village, Animal, Plant, Album, Film, or Book. "
        "Output only the category name (no explanations or extra text) as the first token."
    ),
    fields=(("text", "Article"),),
    answer="Answer",
    labels=(
        ("Company", "Company"),
        ("EducationalInstitution", "School"),
        ("Artist", "Artist"),
        ("Athlete", "Athlete"),
        ("OfficeHolder", "Politician"),
        ("MeanOfTransportation", "Transportation"),
        ("Building", "Building"),
        ("NaturalPlace", "Nature"),
        ("Village", "Village"),
        ("Animal", "Animal"),
        ("Plant", "Plant"),
        ("Album", "Album"),
        ("Film", "Film"),
        ("WrittenWork", "Book"),
    ),
)
_ORDER = tuple(name for name, _ in _TASK.labels)

TASK = TaskData(
    task=_TASK,
    # Without the title, as the examples of the paper's Table 2 are.
    texts=((("content",), ("text",)),),
    # The published files count labels from 1, the hub counts them from 0.
    labels=(LabelColumn("class index", _ORDER, first=1), LabelColumn("label", _ORDER)),
    hub=Hub("fancyzhx/dbpedia_14", "dbpedia_14"),
)
