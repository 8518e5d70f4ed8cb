"""Public names of instruments, and which of them are methods of a `Meter`, for type checkers and for lazy names.

Made of what each `INSTRUMENT` says: `LEAKMETER_SNAPSHOTS=1 pytest tests/habits/test_typed.py` writes it.
"""

from leakmeter.instruments.decoding import command as _decoding
from leakmeter.instruments.decoding.command import decode as decode
from leakmeter.instruments.decoding.command import frontier as frontier
from leakmeter.instruments.decoding.result import DecodeResult as DecodeResult
from leakmeter.instruments.generation import command as _generation
from leakmeter.instruments.generation.command import calibrate as calibrate
from leakmeter.instruments.generation.command import generate as generate
from leakmeter.instruments.generation.result import PrivateGenerationResult as PrivateGenerationResult
from leakmeter.instruments.icl import command as _icl
from leakmeter.instruments.icl.command import icl as icl
from leakmeter.instruments.icl.command import icl_responses as icl_responses
from leakmeter.instruments.icl.command import icl_select as icl_select
from leakmeter.instruments.icl.result import IclResult as IclResult
from leakmeter.instruments.influence import command as _influence
from leakmeter.instruments.influence.command import influence as influence
from leakmeter.instruments.influence.result import InfluenceResult as InfluenceResult
from leakmeter.instruments.pii import command as _pii
from leakmeter.instruments.pii.command import pii as pii
from leakmeter.instruments.pii.command import pii_check as pii_check
from leakmeter.instruments.pii.command import pii_extract as pii_extract
from leakmeter.instruments.pii.command import pii_insert as pii_insert
from leakmeter.instruments.pii.command import pii_tune as pii_tune
from leakmeter.instruments.pii.result import PiiResult as PiiResult
from leakmeter.instruments.redaction import command as _redaction
from leakmeter.instruments.redaction.command import redact as redact
from leakmeter.instruments.redaction.result import RedactionResult as RedactionResult
from leakmeter.instruments.susceptibility import command as _susceptibility
from leakmeter.instruments.susceptibility.command import fisher_susceptibility as fisher_susceptibility
from leakmeter.instruments.susceptibility.command import susceptibility as susceptibility
from leakmeter.instruments.susceptibility.fisher.result import FisherResult as FisherResult
from leakmeter.instruments.susceptibility.result import SusceptibilityResult as SusceptibilityResult


class _Methods:
    decode = _decoding.decode
    frontier = _decoding.frontier
    generate = _generation.generate
    icl = _icl.icl
    icl_responses = _icl.icl_responses
    icl_select = _icl.icl_select
    influence = _influence.influence
    pii = _pii.pii
    pii_check = _pii.pii_check
    pii_insert = _pii.pii_insert
    pii_tune = _pii.pii_tune
    redact = _redaction.redact
    fisher_susceptibility = _susceptibility.fisher_susceptibility
    susceptibility = _susceptibility.susceptibility
