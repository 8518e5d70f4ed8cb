"""Records of a query, what was retrieved for it and a response, in the shapes that `data` reads; but not the prompt.

The prompt is made as for samples of ragas, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from leakmeter.core.case import Case
from leakmeter.data import formats as data_formats
from leakmeter.data.rows import Row
from leakmeter.errors import DataError
from leakmeter.traces.formats import ragas
from leakmeter.traces.formats.base import Format, Found, Record
from leakmeter.traces.refused import Reason, Unusable

_NAMES: Final = ("llamaindex", "squad", "langchain", "rag")


def _format(preset: data_formats.Format) -> Format:
    def read(given: Record, where: str, documents: str | None) -> Iterator[Found]:
        for _, fields in preset.read([(Row(1, "", where), given)]):
            if isinstance(fields, DataError | Case):
                raise Unusable(Reason.NOT_OF_FORMAT)
            context = fields.get("context")
            sample = {"id": fields.get("id"), "user_input": fields.get("query"), "response": fields.get("response")}
            sample["retrieved_contexts"] = [context] if isinstance(context, str) else context
            yield from ragas.read({**given, **sample}, where, documents)

    return Format(preset.name, preset.about, preset.fits, read, lambda given: True)


ALL: Final = tuple(_format(data_formats.FORMATS[name]) for name in _NAMES)
