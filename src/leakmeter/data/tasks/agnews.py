"""AG News (Zhang et al. 2015): news articles of four kinds."""

from __future__ import annotations

from leakmeter.data.tasks import Hub, LabelColumn, TaskData
from leakmeter.text.exemplars import Task

_TASK = Task(
    name="agnews",
    instruction=(
        "Classify the news articles into the categories of World, Sports, Business, and Technology. "
        "Output only the category name (no explanations or extra text) as the first token."
    ),
    fields=(("text", "Article"),),
    answer="Answer",
    labels=(("World", "World"), ("Sports", "Sports"), ("Business", "Business"), ("Sci/Tech", "Technology")),
)
_ORDER = tuple(name for name, _ in _TASK.labels)

TASK = TaskData(
    task=_TASK,
    texts=((("text",), ("title", "description")),),
    # The published files count labels from 1, the hub counts them from 0.
    labels=(LabelColumn("class index", _ORDER, first=1), LabelColumn("label", _ORDER)),
    synonyms=(("Science/Tech", "Technology"), ("Science/Technology", "Technology")),
    hub=Hub("fancyzhx/ag_news", "default"),
)
