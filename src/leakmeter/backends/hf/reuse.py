"""Features of chunks that were run before: kept from run to run, so that the same chunk is put through a model once.

A chunk is kept whole or not at all, since what is batched together moves the last digits. For the same reason the key
of a chunk holds all that decides what its batches are, and the key of the chunk before wherever that leaves key/value
states behind to start from. What is kept are the wanted rows before the head, (slot, size): they serve every want over
these rows, whatever its λ or T.
"""

from __future__ import annotations

import hashlib
import json
import platform
import weakref
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache as remembered
from importlib import metadata, resources
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from torch import Tensor

from leakmeter.core.backend import FeatureCache
from leakmeter.core.tree import Chunk

if TYPE_CHECKING:
    from leakmeter.backends.hf.backend import HfBackend


class Reuse:
    """Looks chunks up before they are run, and keeps what was run, under what `identity` and `limits` say. Limits are
    asked anew for each chunk, since running out of memory changes them; they are None where the model is no longer the
    one that `identity` describes.

    Within a decoding, round r + 1 starts from states that round r left in memory. Where round r was found here and r +
    1 is not, round r has to be run after all: computing the states in any other way would move the last digits.
    """

    def __init__(
        self,
        cache: FeatureCache,
        identity: Mapping[str, object],
        limits: Callable[[], Mapping[str, object] | None],
        device: torch.device,
    ) -> None:
        self._cache = cache
        self._identity = dict(identity)
        self._limits = limits
        self._device = device
        # Chunks that were found, not run, and left states behind: to be run before one that is missed.
        self._skipped: list[Chunk] = []
        # Key of the chunk whose states the next one starts from: empty for none, None where it is not known.
        self._earlier: bytes | None = b""
        # Keys of the chunks since `begin`, while anybody wants to know.
        self._since: list[bytes] | None = None

    def begin(self) -> None:
        """From here on, remember which chunks were found or kept."""
        self._since = []

    def end(self) -> None:
        self._since = None

    def disown(self) -> None:
        """Forget these chunks in the cache too: what was kept of them is wrong."""
        for key in self._since or ():
            self._cache.remove(key)

    def through(self, chunk: Chunk, run: Callable[[Chunk], Tensor], forget: Callable[[], None]) -> Tensor:
        """Features of the chunk's rows, (slot, size): found, or run and kept. `run` starts from what the run before
        left behind, which `forget` drops."""
        if chunk.round == 0:
            self._skipped.clear()
            self._earlier = b""
        earlier, fixed = self._earlier, self._fixed()
        key = None if earlier is None or fixed is None else chunk_key(fixed, chunk, earlier)
        array = None if key is None else self._cache.get(key)
        if key is not None and self._since is not None:
            self._since.append(key)
        if array is not None and array.ndim == 2 and len(array) == chunk.n_slots:
            if leaves_states(chunk):
                self._earlier = key
                self._skipped.append(chunk)
            else:
                self._earlier = b""
                self._skipped.clear()
                forget()
            return to_tensor(array).to(self._device)
        self._earlier = None
        skipped, self._skipped = self._skipped, []
        for chunk_before in skipped:
            run(chunk_before)
        features = run(chunk)
        if self._fixed() != fixed:
            key = None  # memory ran out on the way, say, and batches were cut otherwise than the key says
        self._earlier = key if leaves_states(chunk) else b""
        if key is not None and not bool(features.isnan().any()):
            self._cache.put(key, to_array(features))
        return features

    def _fixed(self) -> bytes | None:
        limits = self._limits()
        if limits is None:
            return None
        return json.dumps([self._identity, dict(limits)], sort_keys=True).encode()


def reuse_for(backend: HfBackend, cache: FeatureCache, model_id: str | None = None) -> Reuse:
    """Reuse by a back end whose weights have a hash, or a name by the caller. Once a parameter is changed in place, or
    parameters come or go, nothing is found or kept any more."""
    model = backend.model
    identity = {
        "weights_sha256": backend.weights_sha256,
        "model_id": model_id,
        "dtype": backend.dtype,
        **backend.identity,
        "attention": model.config.get_text_config()._attn_implementation,
        "device": _device_kind(model.device),
        "leakmeter": metadata.version("leakmeter"),
        "source": _source_sha256(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    loaded = parameters_state(model)
    # A back end that held itself would stay in memory, with its model, until the garbage collector comes.
    held = weakref.ref(backend)

    def limits() -> Mapping[str, object] | None:
        model = held()
        if model is None or parameters_state(model.model) != loaded:
            return None
        # Passes become plain ones where a self-check failed.
        return {
            **asdict(model.limits),
            "float32": torch.get_float32_matmul_precision(),
            "shares_prefixes": model.shares_prefixes,
            "forks": model.forward.forks,
            "joins_segments": model.forward.joins_segments,
            "has_head": model.forward.has_head,
        }

    return Reuse(cache, identity, limits, model.device)


def leaves_states(chunk: Chunk) -> bool:
    return any(request.reduction.continues for request in chunk.requests)


def continued_branches(chunk: Chunk) -> list[bool]:
    """Whether each branch has the last row of a response with which the next round goes on."""
    continued = {
        int(slot) for request, slots in chunk.answers() if request.reduction.continues for slot in slots[:, -1]
    }
    return [not continued.isdisjoint(branch.row_slots.tolist()) for branch in chunk.branches]


def chunk_key(identity: bytes, chunk: Chunk, earlier: bytes = b"") -> bytes:
    """Hash, 32 bytes, of all that the features of a chunk depend on: the model and what else decides its numbers
    (`identity`), the branches, the key of the chunk whose states it may start from (`earlier`), and which rows states
    are kept for, since that decides what is batched together. The rest of a reduction has no part in it."""
    digest = hashlib.blake2b(digest_size=32)

    def add(*parts: bytes) -> None:
        for part in parts:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)

    add(identity, earlier, _bytes([chunk.n_slots, len(chunk.branches)]))
    for branch, lasts in zip(chunk.branches, continued_branches(chunk), strict=True):
        add(_bytes([branch.parent, branch.fork, int(lasts), int(branch.apart)]))
        add(
            _bytes(branch.ids),
            _bytes(branch.positions),
            _bytes(branch.row_tokens),
            _bytes(branch.row_slots),
            _bytes(branch.hidden),
            _bytes(branch.ends),
        )
    return digest.digest()


def to_array(features: Tensor) -> npt.NDArray[Any]:
    """Features as NumPy knows them; bfloat16, which it does not know, as the same bits in uint16."""
    on_cpu = features.detach().cpu().contiguous()
    array: npt.NDArray[Any] = (on_cpu.view(torch.uint16) if on_cpu.dtype == torch.bfloat16 else on_cpu).numpy()
    return array


def to_tensor(array: npt.NDArray[Any]) -> Tensor:
    tensor = torch.from_numpy(array.copy())
    return tensor.view(torch.bfloat16) if tensor.dtype == torch.uint16 else tensor


def _bytes(numbers: Any) -> bytes:
    return np.ascontiguousarray(numbers, dtype="<i8").tobytes()


def parameters_state(model: Any) -> tuple[int, int]:
    """Number of a model's parameters, and how often they were changed in place, as torch counts; parameters of
    inference mode cannot be trained, and have no count."""
    counts = [0 if parameter.is_inference() else parameter._version for parameter in model.parameters()]
    return len(counts), sum(counts)


def _device_kind(device: torch.device) -> str:
    if device.type == "cuda":
        return f"cuda {torch.cuda.get_device_name(device)}"
    if device.type == "cpu":
        return f"cpu {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return device.type


@remembered
def _source_sha256() -> str:
    """Hash of this package's modules: a change in how batches are made changes last digits."""
    digest = hashlib.sha256()
    files = [file for file in resources.files("leakmeter.backends.hf").iterdir() if file.name.endswith(".py")]
    for file in sorted(files, key=lambda file: file.name):
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
