"""Where a model's vectors are replaced, or cut off from what they come from, so that their gradients can be taken.

tokens → embedding ──┬─→ layer 0 → … ──┬─→ layer ℓ → … → logits
                   query, slot       layer:ℓ
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor

from leakmeter.core.prompt import VIRTUAL
from leakmeter.core.request import VectorPlace
from leakmeter.errors import CapabilityError


@contextmanager
def differentiable(model: Any, name: str) -> Iterator[None]:
    """The model in evaluation mode, its weights without gradients, and with eager attention, which can be
    differentiated twice, and for many directions at once; afterwards as it was."""
    if any(weight.is_inference() for weight in model.parameters()):
        raise CapabilityError(
            f"the weights of '{name}' were made in torch.inference_mode, which rules gradients out; load it outside"
        )
    config = model.config.get_text_config()
    implementation = config._attn_implementation
    was_training = [module for module in model.modules() if module.training]
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    try:
        model.eval()
        for weight in trained:
            weight.requires_grad_(False)
        config._attn_implementation = "eager"
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        config._attn_implementation = implementation
        for weight in trained:
            weight.requires_grad_(True)
        for module in was_training:
            module.training = True


@contextmanager
def cut_at(model: Any, place: VectorPlace, name: str) -> Iterator[list[Tensor]]:
    """While a forward pass runs, cut it at a place: the vectors there become leaves, and are put into the list."""
    leaves: list[Tensor] = []

    def leaf(vectors: Tensor) -> Tensor:
        leaves.append(vectors.detach().requires_grad_())
        return leaves[-1]

    def entering(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if args:
            return (leaf(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": leaf(kwargs["hidden_states"])}

    if place.kind == "layer":
        handle = layer_of(model, place.layer, name).register_forward_pre_hook(entering, with_kwargs=True)
    else:
        handle = model.get_input_embeddings().register_forward_hook(lambda module, args, out: leaf(out))
    with handle:
        yield leaves


@contextmanager
def virtual_tokens(model: Any, vectors: Tensor) -> Iterator[None]:
    """While it lasts, the model reads vectors (token, size) of a soft prompt, as its embedding module gives them, in
    the place of the ids VIRTUAL, VIRTUAL + 1, …, which are beyond every vocabulary. A prompt that begins with them is
    like any other: its states are forked, batched and kept, and nothing else has to know of vectors."""
    embedding = model.get_input_embeddings()
    with torch.no_grad():
        width = int(embedding(torch.zeros((1, 1), dtype=torch.int64, device=model.device)).shape[-1])
    if vectors.shape[-1] != width:
        raise CapabilityError(f"the soft prompt has vectors of {vectors.shape[-1]:,} numbers, and the model {width:,}")
    own = vectors.to(device=model.device, dtype=model.dtype)
    seen: list[Tensor] = []

    def before(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        seen.append(args[0])
        return (args[0].masked_fill(args[0] >= VIRTUAL, 0), *args[1:])

    def after(module: Any, args: tuple[Any, ...], out: Tensor) -> Tensor:
        ids = seen.pop()
        is_virtual = ids >= VIRTUAL
        if not bool(is_virtual.any()):
            return out
        return torch.where(is_virtual[..., None], own[(ids - VIRTUAL).clamp(min=0)], out)

    with embedding.register_forward_pre_hook(before), embedding.register_forward_hook(after):
        yield


class _ReachedError(Exception):
    """Ends a pass at the layer that was asked for."""


def entering_layer(model: Any, layer: torch.nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """Residual states that enter one of a model's layers, (row, token, size); what comes after it is not run."""

    def stop(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.append(args[0] if args else kwargs["hidden_states"])
        raise _ReachedError

    seen: list[Tensor] = []
    with layer.register_forward_pre_hook(stop, with_kwargs=True), suppress(_ReachedError):
        model.base_model(**inputs)
    check_one_stream(model, seen[0], inputs["input_ids"])
    return seen[0]


def check_one_stream(model: Any, vectors: Tensor, ids: Tensor) -> None:
    """Refuse vectors of a place that are not one for each token, (row, token, size): Gemma 3n's layers have several."""
    if vectors.shape[:-1] != ids.shape:
        raise CapabilityError(
            f"the layers of {type(model).__name__} have several vectors for each token, of which none is all that they "
            "read; give place query"
        )


def layer_of(model: Any, layer: int, name: str) -> Any:
    """A layer by its number: of the one list of modules that is as long as the model is deep."""
    n_layers = model.config.get_text_config().num_hidden_layers
    lists = {
        where: module
        for where, module in model.base_model.named_modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == n_layers
    }
    # Lists within a layer, such as experts, stand deeper.
    depth = min((where.count(".") for where in lists), default=0)
    highest = [module for where, module in lists.items() if where.count(".") == depth]
    if len(highest) != 1:
        raise CapabilityError(f"the layers of '{name}' cannot be distinguished from its other parts; give place query")
    VectorPlace("layer", layer).check(n_layers, name)
    return highest[0][layer]
