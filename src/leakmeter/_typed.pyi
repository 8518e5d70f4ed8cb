"""Signatures of the functions, for editors and type checkers; made by tests/helpers/typed_surface.py."""

from collections.abc import Mapping
from collections.abc import Sequence
from leakmeter.commands.call import Row
from leakmeter.core.gradient import Sigma
from leakmeter.instruments.decoding.frontier import Frontier
from leakmeter.instruments.decoding.result import DecodeResult
from leakmeter.instruments.generation.calibration import Calibration
from leakmeter.instruments.generation.result import PrivateGenerationResult
from leakmeter.instruments.icl.measure import Baseline
from leakmeter.instruments.icl.measure import LabelScoring
from leakmeter.instruments.icl.measure import Space
from leakmeter.instruments.icl.measure import Calibration as icl_Calibration
from leakmeter.instruments.icl.result import IclResult
from leakmeter.instruments.icl.selection import Selection
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.instruments.pii.check import Checked
from leakmeter.instruments.pii.probe import ProbeKind
from leakmeter.instruments.pii.probe import ProbeTemplates
from leakmeter.instruments.pii.result import PiiResult
from leakmeter.instruments.pii.settings import Unasked
from leakmeter.instruments.pii.subject import ValueType
from leakmeter.instruments.pii.tuning.soft_prompt import Tuned
from leakmeter.instruments.redaction.result import RedactionResult
from leakmeter.instruments.susceptibility.fisher.measure import Method
from leakmeter.instruments.susceptibility.fisher.result import FisherResult
from leakmeter.instruments.susceptibility.result import SusceptibilityResult
from leakmeter.privacy.calibrate import Free
from leakmeter.privacy.clipped_logits import Adjacency
from leakmeter.privacy.clipped_logits import NormaliseBy
from leakmeter.privacy.mechanism import Mechanism
from leakmeter.runs.results import Results
from leakmeter.text.build import Removal
from pathlib import Path
from typing import Any
from typing import overload

class MeterMethods:
    def audit(
        self,
        data: Any = None,
        *,
        task: str | Row | None = None,
        label: str | None = None,
        subset_size: int | None = None,
        batches: int | None = None,
        epsilon: float | None = None,
        temperature: float | None = None,
        samples: int | None = None,
        mechanism: Mechanism | None = None,
        clip: float = 10.0,
        normalise_by: NormaliseBy = "fixed",
        max_new_tokens: int = 40,
        min_new_tokens: int = 0,
        delta: float = 1e-05,
        seed: int | None = None,
        instruction: str = "Given a label of news type, generate the chosen type of news accordingly.",
        label_heading: str = "News Type",
        text_heading: str = "Text",
        template: str | None = "plain",
        map: str | Mapping[str, str] | None = None,
        out: str | Path | None = None,
        progress: bool = False,
    ) -> Results[PrivateGenerationResult]:
        """Write texts like private exemplars by private token generation, and hold what they tell against the guarantee."""

    @overload
    def decode(
        self,
        data: Any,
        *,
        delta: float = 1e-05,
        temperature: float = 1.0,
        cid_lambda: float = 1.0,
        epsilon: float | None = None,
        lambda_max: float = 1.0,
        min_new_tokens: int = 0,
        max_new_tokens: int = 50,
        samples: int = 1,
        seed: int | None = None,
        template: str | None = None,
        truncate: bool = False,
        map: str | Mapping[str, str] | None = None,
        format: str | None = None,
        context_from: str | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        skip_bad: bool = False,
    ) -> Results[DecodeResult]:
        """Draw a response by context influence decoding, and write down in nats what each token tells of the context."""

    @overload
    def decode(
        self,
        *,
        context: str | Sequence[Any] | Mapping[str, str] = (),
        query: str = "",
        messages: Sequence[Mapping[str, Any]] = (),
        delta: float = 1e-05,
        temperature: float = 1.0,
        cid_lambda: float = 1.0,
        epsilon: float | None = None,
        lambda_max: float = 1.0,
        min_new_tokens: int = 0,
        max_new_tokens: int = 50,
        samples: int = 1,
        seed: int | None = None,
        template: str | None = None,
        truncate: bool = False,
        context_from: str | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        skip_bad: bool = False,
    ) -> DecodeResult:
        """Draw a response by context influence decoding, and write down in nats what each token tells of the context."""

    def fisher_susceptibility(
        self,
        data: Any = None,
        *,
        contexts: Any = None,
        sigma: Sigma | Sequence[Sigma] = "identity",
        method: Method = "deflated",
        place: str = "query",
        probes: int = 8,
        directions: int = 8,
        top_k: int = 16,
        slot_tokens: int = 16,
        relative_error: float | None = None,
        max_probes: int = 256,
        seed: int = 0,
        template: str | None = "plain",
        separator: str = "\n",
        map: str | Mapping[str, str] | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        skip_bad: bool = False,
    ) -> Results[FisherResult]:
        """Measure, from gradients, how far changes of queries' vectors would move the answers to them."""

    def frontier(
        self,
        data: Any = None,
        *,
        lambdas: Sequence[float] | None = None,
        epsilons: Sequence[float] | None = None,
        bertscore: str | None = None,
        bertscore_layer: int | None = None,
        template: str | None = None,
        truncate: bool = False,
        temperature: float = 1.0,
        lambda_max: float = 1.0,
        min_new_tokens: int = 0,
        max_new_tokens: int = 50,
        samples: int = 1,
        seed: int | None = None,
    ) -> Frontier:
        """Sweep λ or ε: what each setting leaks, what it is good for, and which to ship."""

    def icl(
        self,
        data: Any = None,
        *,
        task: str | Row,
        exemplars: Any = None,
        pool: Any = None,
        shots: int | None = None,
        seed: int = 0,
        max_queries: int | None = None,
        template: str | None = "plain",
        space: Space = "labels",
        label_scoring: LabelScoring = "first-token",
        calibration: icl_Calibration | None = None,
        calibration_baseline: Baseline = "own",
        calibration_epsilon: float = 0.0001,
        temperature: float = 1.0,
        map: str | Mapping[str, str] | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        skip_bad: bool = False,
    ) -> Results[IclResult]:
        """Measure, in nats, the influence of each exemplar of a prompt on the answer to a query."""

    def icl_select(
        self,
        data: Any = None,
        *,
        task: str | Row,
        exemplars: Any,
        pool: Any = None,
        moves: Sequence[str] = (),
        max_steps: int = 5,
        candidates: int = 8,
        max_queries: int | None = None,
        seed: int = 0,
        template: str | None = "plain",
        space: Space = "labels",
        label_scoring: LabelScoring = "first-token",
        calibration: icl_Calibration | None = None,
        calibration_baseline: Baseline = "own",
        calibration_epsilon: float = 0.0001,
        temperature: float = 1.0,
        map: str | Mapping[str, str] | None = None,
        out: str | Path | None = None,
        progress: bool = False,
    ) -> Selection:
        """Search for exemplars that leak less: reorder, drop, replace or add some, one move at a time."""

    @overload
    def influence(
        self,
        data: Any,
        *,
        temperature: float = 1.0,
        cid_lambda: float = 1.0,
        samples: int = 1,
        max_new_tokens: int = 50,
        seed: int = 0,
        unit: str | None = None,
        removal: Removal = "drop",
        template: str | None = None,
        group: bool = False,
        truncate: bool = False,
        max_context_tokens: int | None = None,
        region: str = "US",
        entity_patterns: str | None = None,
        ner: str | None = None,
        swap: bool = False,
        swap_seed: int = 0,
        map: str | Mapping[str, str] | None = None,
        format: str | None = None,
        context_from: str | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        skip_bad: bool = False,
    ) -> Results[InfluenceResult]:
        """Measure, in nats, the influence of each piece of a context on a response."""

    @overload
    def influence(
        self,
        *,
        context: str | Sequence[Any] | Mapping[str, str] = (),
        query: str = "",
        response: str | None = None,
        messages: Sequence[Mapping[str, Any]] = (),
        temperature: float = 1.0,
        cid_lambda: float = 1.0,
        samples: int = 1,
        max_new_tokens: int = 50,
        seed: int = 0,
        unit: str | None = None,
        removal: Removal = "drop",
        template: str | None = None,
        group: bool = False,
        truncate: bool = False,
        max_context_tokens: int | None = None,
        region: str = "US",
        entity_patterns: str | None = None,
        ner: str | None = None,
        swap: bool = False,
        swap_seed: int = 0,
        context_from: str | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        skip_bad: bool = False,
    ) -> InfluenceResult:
        """Measure, in nats, the influence of each piece of a context on a response."""

    def pii(
        self,
        data: Any = None,
        *,
        kinds: Sequence[ProbeKind] = ...,
        templates: ProbeTemplates | None = None,
        soft_prompt: str | Path | None = None,
        region: str = "US",
        beams: tuple[int, ...] = ...,
        prompts: int = 5,
        decoys: int = 99,
        control_names: int = 2,
        decoy_seed: int = 0,
        keep_values: bool = False,
        map: str | Mapping[str, str] | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        skip_bad: bool = False,
    ) -> Results[PiiResult]:
        """Ask a model for people's data, and rank each value among decoys by how likely the model finds it."""

    def pii_check(
        self,
        data: Any = None,
        *,
        out: str | Path,
        canaries: int = 40,
        repeats: tuple[int, ...] = ...,
        held_out: int = 40,
        seed: int = 0,
        types: tuple[ValueType, ...] = ...,
        white_box: ValueType | None = "phone",
        decoys: int = 50,
        prompts: int = 1,
        soft_tokens: int = 20,
        soft_epochs: int = 60,
        epochs: int = 1,
        learning_rate: float = 0.0003,
        batch_tokens: int = 256,
        warmup_steps: Unasked[int] = 10,
        max_norm: Unasked[float] = 1.0,
    ) -> Checked:
        """Insert canaries into a copy of a model, ask for them and for others, and say which scores tell them apart."""

    def pii_insert(
        self,
        data: Any = None,
        *,
        out: str | Path,
        canaries: int = 40,
        repeats: tuple[int, ...] = ...,
        held_out: int = 40,
        seed: int = 0,
        epochs: int = 1,
        learning_rate: float = 0.0003,
        batch_tokens: int = 256,
        warmup_steps: Unasked[int] = 10,
        max_norm: Unasked[float] = 1.0,
    ) -> Path:
        """Fine-tune a copy of a model on documents of canaries, people who do not exist, and hold others out of it."""

    def pii_tune(
        self,
        data: Any = None,
        *,
        out: str | Path,
        validation: Any = None,
        type: ValueType = "phone",
        region: str = "US",
        length: int = 20,
        init: str | None = None,
        learning_rate: float = 0.005,
        epochs: int = 700,
        batch_size: int = 8,
        seed: int = 0,
        exact_match_every: Unasked[int] = 10,
        patience: int = 100,
        map: str | Mapping[str, str] | None = None,
        skip_bad: bool = False,
    ) -> Tuned:
        """Tune a soft prompt on some people, to ask the model for others' values with it: white-box probing."""

    @overload
    def redaction(
        self,
        data: Any,
        *,
        max_loss: float,
        temperature: float = 1.0,
        cid_lambda: float = 1.0,
        max_new_tokens: int = 50,
        seed: int = 0,
        unit: str | None = None,
        removal: Removal = "drop",
        template: str | None = None,
        group: bool = False,
        truncate: bool = False,
        max_context_tokens: int | None = None,
        region: str = "US",
        entity_patterns: str | None = None,
        ner: str | None = None,
        map: str | Mapping[str, str] | None = None,
        format: str | None = None,
        context_from: str | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        skip_bad: bool = False,
    ) -> Results[RedactionResult]:
        """Find few pieces to cut from a context so that what is left has little influence on the response."""

    @overload
    def redaction(
        self,
        *,
        max_loss: float,
        context: str | Sequence[Any] | Mapping[str, str] = (),
        query: str = "",
        response: str | None = None,
        messages: Sequence[Mapping[str, Any]] = (),
        temperature: float = 1.0,
        cid_lambda: float = 1.0,
        max_new_tokens: int = 50,
        seed: int = 0,
        unit: str | None = None,
        removal: Removal = "drop",
        template: str | None = None,
        group: bool = False,
        truncate: bool = False,
        max_context_tokens: int | None = None,
        region: str = "US",
        entity_patterns: str | None = None,
        ner: str | None = None,
        context_from: str | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        skip_bad: bool = False,
    ) -> RedactionResult:
        """Find few pieces to cut from a context so that what is left has little influence on the response."""

    def susceptibility(
        self,
        data: Any = None,
        *,
        contexts: Any,
        temperature: float = 1.0,
        answer_tokens: int = 0,
        template: str | None = "plain",
        separator: str = "\n",
        map: str | Mapping[str, str] | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        skip_bad: bool = False,
    ) -> Results[SusceptibilityResult]:
        """Measure, in nats, how far contexts move the answers to queries."""

def audit(
    model: Any = "smollm2-135m",
    data: Any = None,
    *,
    task: str | Row | None = None,
    label: str | None = None,
    subset_size: int | None = None,
    batches: int | None = None,
    epsilon: float | None = None,
    temperature: float | None = None,
    samples: int | None = None,
    mechanism: Mechanism | None = None,
    clip: float = 10.0,
    normalise_by: NormaliseBy = "fixed",
    max_new_tokens: int = 40,
    min_new_tokens: int = 0,
    delta: float = 1e-05,
    seed: int | None = None,
    instruction: str = "Given a label of news type, generate the chosen type of news accordingly.",
    label_heading: str = "News Type",
    text_heading: str = "Text",
    template: str | None = "plain",
    map: str | Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Results[PrivateGenerationResult]:
    """Write texts like private exemplars by private token generation, and hold what they tell against the guarantee."""

def calibrate(
    *,
    epsilon: float,
    free: Free,
    clip: float | None = None,
    subset_size: int | None = None,
    temperature: float | None = None,
    samples: int = 50,
    max_new_tokens: int = 40,
    delta: float = 1e-05,
    adjacency: Adjacency = "add-remove",
    normalise_by: NormaliseBy = "fixed",
) -> Calibration:
    """Find the temperature, clip or subset size at which private token generation has a guarantee."""

@overload
def decode(
    model: Any,
    data: Any,
    *,
    delta: float = 1e-05,
    temperature: float = 1.0,
    cid_lambda: float = 1.0,
    epsilon: float | None = None,
    lambda_max: float = 1.0,
    min_new_tokens: int = 0,
    max_new_tokens: int = 50,
    samples: int = 1,
    seed: int | None = None,
    template: str | None = None,
    truncate: bool = False,
    map: str | Mapping[str, str] | None = None,
    format: str | None = None,
    context_from: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Results[DecodeResult]:
    """Draw a response by context influence decoding, and write down in nats what each token tells of the context."""

@overload
def decode(
    model: Any = "smollm2-135m",
    *,
    context: str | Sequence[Any] | Mapping[str, str] = (),
    query: str = "",
    messages: Sequence[Mapping[str, Any]] = (),
    delta: float = 1e-05,
    temperature: float = 1.0,
    cid_lambda: float = 1.0,
    epsilon: float | None = None,
    lambda_max: float = 1.0,
    min_new_tokens: int = 0,
    max_new_tokens: int = 50,
    samples: int = 1,
    seed: int | None = None,
    template: str | None = None,
    truncate: bool = False,
    context_from: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> DecodeResult:
    """Draw a response by context influence decoding, and write down in nats what each token tells of the context."""

def fisher_susceptibility(
    model: Any = "smollm2-135m",
    data: Any = None,
    *,
    contexts: Any = None,
    sigma: Sigma | Sequence[Sigma] = "identity",
    method: Method = "deflated",
    place: str = "query",
    probes: int = 8,
    directions: int = 8,
    top_k: int = 16,
    slot_tokens: int = 16,
    relative_error: float | None = None,
    max_probes: int = 256,
    seed: int = 0,
    template: str | None = "plain",
    separator: str = "\n",
    map: str | Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Results[FisherResult]:
    """Measure, from gradients, how far changes of queries' vectors would move the answers to them."""

def frontier(
    model: Any = "smollm2-135m",
    data: Any = None,
    *,
    lambdas: Sequence[float] | None = None,
    epsilons: Sequence[float] | None = None,
    bertscore: str | None = None,
    bertscore_layer: int | None = None,
    template: str | None = None,
    truncate: bool = False,
    temperature: float = 1.0,
    lambda_max: float = 1.0,
    min_new_tokens: int = 0,
    max_new_tokens: int = 50,
    samples: int = 1,
    seed: int | None = None,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Frontier:
    """Sweep λ or ε: what each setting leaks, what it is good for, and which to ship."""

def icl(
    model: Any = "smollm2-135m",
    data: Any = None,
    *,
    task: str | Row,
    exemplars: Any = None,
    pool: Any = None,
    shots: int | None = None,
    seed: int = 0,
    max_queries: int | None = None,
    template: str | None = "plain",
    space: Space = "labels",
    label_scoring: LabelScoring = "first-token",
    calibration: icl_Calibration | None = None,
    calibration_baseline: Baseline = "own",
    calibration_epsilon: float = 0.0001,
    temperature: float = 1.0,
    map: str | Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Results[IclResult]:
    """Measure, in nats, the influence of each exemplar of a prompt on the answer to a query."""

def icl_select(
    model: Any = "smollm2-135m",
    data: Any = None,
    *,
    task: str | Row,
    exemplars: Any,
    pool: Any = None,
    moves: Sequence[str] = (),
    max_steps: int = 5,
    candidates: int = 8,
    max_queries: int | None = None,
    seed: int = 0,
    template: str | None = "plain",
    space: Space = "labels",
    label_scoring: LabelScoring = "first-token",
    calibration: icl_Calibration | None = None,
    calibration_baseline: Baseline = "own",
    calibration_epsilon: float = 0.0001,
    temperature: float = 1.0,
    map: str | Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Selection:
    """Search for exemplars that leak less: reorder, drop, replace or add some, one move at a time."""

@overload
def influence(
    model: Any,
    data: Any,
    *,
    temperature: float = 1.0,
    cid_lambda: float = 1.0,
    samples: int = 1,
    max_new_tokens: int = 50,
    seed: int = 0,
    unit: str | None = None,
    removal: Removal = "drop",
    template: str | None = None,
    group: bool = False,
    truncate: bool = False,
    max_context_tokens: int | None = None,
    region: str = "US",
    entity_patterns: str | None = None,
    ner: str | None = None,
    swap: bool = False,
    swap_seed: int = 0,
    map: str | Mapping[str, str] | None = None,
    format: str | None = None,
    context_from: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Results[InfluenceResult]:
    """Measure, in nats, the influence of each piece of a context on a response."""

@overload
def influence(
    model: Any = "smollm2-135m",
    *,
    context: str | Sequence[Any] | Mapping[str, str] = (),
    query: str = "",
    response: str | None = None,
    messages: Sequence[Mapping[str, Any]] = (),
    temperature: float = 1.0,
    cid_lambda: float = 1.0,
    samples: int = 1,
    max_new_tokens: int = 50,
    seed: int = 0,
    unit: str | None = None,
    removal: Removal = "drop",
    template: str | None = None,
    group: bool = False,
    truncate: bool = False,
    max_context_tokens: int | None = None,
    region: str = "US",
    entity_patterns: str | None = None,
    ner: str | None = None,
    swap: bool = False,
    swap_seed: int = 0,
    context_from: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> InfluenceResult:
    """Measure, in nats, the influence of each piece of a context on a response."""

def pii(
    model: Any = "smollm2-135m",
    data: Any = None,
    *,
    kinds: Sequence[ProbeKind] = ...,
    templates: ProbeTemplates | None = None,
    soft_prompt: str | Path | None = None,
    region: str = "US",
    beams: tuple[int, ...] = ...,
    prompts: int = 5,
    decoys: int = 99,
    control_names: int = 2,
    decoy_seed: int = 0,
    keep_values: bool = False,
    map: str | Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Results[PiiResult]:
    """Ask a model for people's data, and rank each value among decoys by how likely the model finds it."""

def pii_check(
    model: Any = "smollm2-135m",
    data: Any = None,
    *,
    out: str | Path,
    canaries: int = 40,
    repeats: tuple[int, ...] = ...,
    held_out: int = 40,
    seed: int = 0,
    types: tuple[ValueType, ...] = ...,
    white_box: ValueType | None = "phone",
    decoys: int = 50,
    prompts: int = 1,
    soft_tokens: int = 20,
    soft_epochs: int = 60,
    epochs: int = 1,
    learning_rate: float = 0.0003,
    batch_tokens: int = 256,
    warmup_steps: Unasked[int] = 10,
    max_norm: Unasked[float] = 1.0,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Checked:
    """Insert canaries into a copy of a model, ask for them and for others, and say which scores tell them apart."""

def pii_insert(
    model: Any = "smollm2-135m",
    data: Any = None,
    *,
    out: str | Path,
    canaries: int = 40,
    repeats: tuple[int, ...] = ...,
    held_out: int = 40,
    seed: int = 0,
    epochs: int = 1,
    learning_rate: float = 0.0003,
    batch_tokens: int = 256,
    warmup_steps: Unasked[int] = 10,
    max_norm: Unasked[float] = 1.0,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Path:
    """Fine-tune a copy of a model on documents of canaries, people who do not exist, and hold others out of it."""

def pii_tune(
    model: Any = "smollm2-135m",
    data: Any = None,
    *,
    out: str | Path,
    validation: Any = None,
    type: ValueType = "phone",
    region: str = "US",
    length: int = 20,
    init: str | None = None,
    learning_rate: float = 0.005,
    epochs: int = 700,
    batch_size: int = 8,
    seed: int = 0,
    exact_match_every: Unasked[int] = 10,
    patience: int = 100,
    map: str | Mapping[str, str] | None = None,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Tuned:
    """Tune a soft prompt on some people, to ask the model for others' values with it: white-box probing."""

@overload
def redaction(
    model: Any,
    data: Any,
    *,
    max_loss: float,
    temperature: float = 1.0,
    cid_lambda: float = 1.0,
    max_new_tokens: int = 50,
    seed: int = 0,
    unit: str | None = None,
    removal: Removal = "drop",
    template: str | None = None,
    group: bool = False,
    truncate: bool = False,
    max_context_tokens: int | None = None,
    region: str = "US",
    entity_patterns: str | None = None,
    ner: str | None = None,
    map: str | Mapping[str, str] | None = None,
    format: str | None = None,
    context_from: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Results[RedactionResult]:
    """Find few pieces to cut from a context so that what is left has little influence on the response."""

@overload
def redaction(
    model: Any = "smollm2-135m",
    *,
    max_loss: float,
    context: str | Sequence[Any] | Mapping[str, str] = (),
    query: str = "",
    response: str | None = None,
    messages: Sequence[Mapping[str, Any]] = (),
    temperature: float = 1.0,
    cid_lambda: float = 1.0,
    max_new_tokens: int = 50,
    seed: int = 0,
    unit: str | None = None,
    removal: Removal = "drop",
    template: str | None = None,
    group: bool = False,
    truncate: bool = False,
    max_context_tokens: int | None = None,
    region: str = "US",
    entity_patterns: str | None = None,
    ner: str | None = None,
    context_from: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> RedactionResult:
    """Find few pieces to cut from a context so that what is left has little influence on the response."""

def susceptibility(
    model: Any = "smollm2-135m",
    data: Any = None,
    *,
    contexts: Any,
    temperature: float = 1.0,
    answer_tokens: int = 0,
    template: str | None = "plain",
    separator: str = "\n",
    map: str | Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    skip_bad: bool = False,
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Results[SusceptibilityResult]:
    """Measure, in nats, how far contexts move the answers to queries."""
