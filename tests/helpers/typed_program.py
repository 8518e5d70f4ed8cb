"""What a user writes, for type checkers alone: nothing runs it. Lines that have to be refused end with the kind of
error that mypy finds in them; all others are right (see tests/habits/test_typed.py)."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import leakmeter
from leakmeter import DecodeResult, InfluenceResult, PrivateGenerationResult, RedactionResult, Results
from leakmeter.testing import assert_leakage

meter = leakmeter.Meter("toy", dtype="float64")
CASE = {"context": "Ana is 41."}

# A single case has one result, and data have results.
one = meter.influence(context="Ana is 41.", query="How old?", response="41", unit="word")
assert_type(one, InfluenceResult)
assert_type(one.pieces[0].nats, float)
many = meter.influence([CASE], max_new_tokens=2, progress=True)
assert_type(many, Results[InfluenceResult])
assert_type(many[0], InfluenceResult)
assert_type(many["1"].whole_nats, float)
assert_type(meter.redact(data=[CASE], max_loss=0.5), Results[RedactionResult])
assert_type(leakmeter.redact(context=["Ana is 41."], dtype="float32"), RedactionResult)
assert_type(leakmeter.redact("toy", [CASE], threads=1, skip_bad=True), Results[RedactionResult])
assert_type(leakmeter.decode("toy", context="Ana is 41.", epsilon=1.0), DecodeResult)
assert_type(len(leakmeter.tokens("toy", [CASE])), int)
assert_type(leakmeter.tokens("toy", messages=[]).rendered, str)

# These have data alone.
assert_type(meter.icl([{"said": "Hail."}], task="agnews", exemplars=[])[0].loss_nats, float)
assert_type(leakmeter.generate("toy", ["a", "b"], epsilon=14.0, seed=None), Results[PrivateGenerationResult])
assert_type(leakmeter.fisher_susceptibility("toy", ["Who?"], sigma=("identity",))[0].id, str)
assert_type(meter.pii_insert(out="copy", canaries=2), Path)
assert_type(leakmeter.calibrate(epsilon=8, free="temperature", clip=10).guarantees["add-remove"].epsilon, float)
assert_leakage({"context": "Ana is 41."}, max_nats=3.0, meter=meter)

# No option has this name.
meter.influence(context="Ana is 41.", unti="word")  # call-overload
leakmeter.influence("toy", [CASE], unti="word")  # call-overload
leakmeter.susceptibility("toy", ["Who?"], contexts=["a", "b"], templat="chat")  # call-arg
leakmeter.calibrate(epsilon=8, free="temperature", klip=10)  # call-arg
# It is an option of another function, or of none.
meter.influence(context="Ana is 41.", dtype="float32")  # call-overload
meter.icl(["Hail."], exemplars=[], device="cpu")  # call-arg
leakmeter.redact("toy", context="Ana is 41.", max_loss=1.0, swap=True)  # call-overload
leakmeter.decode("toy", context="Ana is 41.", nonce=1)  # call-overload
leakmeter.frontier("toy", [CASE], cid_lambda=1.0)  # call-arg
# Options have names and types.
meter.influence(context="Ana is 41.", samples="two")  # call-overload
meter.influence([CASE], 0.5)  # call-overload
leakmeter.icl_select("toy", ["Hail."], exemplars=[], space="word")  # arg-type
leakmeter.calibrate(epsilon=8, free="everything")  # arg-type
# Some have to be given.
meter.susceptibility(["Who?"])  # call-arg
leakmeter.pii_check("toy")  # call-arg
# A result has no such attribute, nor have results.
str(one.nuts)  # attr-defined
str(many.whole_nats)  # attr-defined
str(leakmeter.redact("toy", [CASE]).reached)  # attr-defined
meter.taste()  # attr-defined
