"""A small case to try it on."""

from __future__ import annotations

from leakmeter.core.instrument import Example
from leakmeter.instruments.pii.probe import ProbeCase
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.subject import Subject


def example(id_: str, response: str | None) -> Example:
    """A telephone number that is nobody's."""
    subject = Subject(id_, "Ilvane Dostrel", phone="617-555-0134")
    settings = ProbeSettings(prompts=1, decoys=50, control_names=1)
    return Example(settings, ProbeCase(subject, "twin", "phone", "617-555-0134"))
