"""Parameter counts of modules, layers and models, and what they weigh as released."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from model.config import KimiConfig
from model.cost_modules import LAYER, LM, layer_kinds, layer_modules, parameter_axes, top_modules
from model.cost_sizes import Case
from model.cost_terms import Term, Value, total
from model.presets import preset

EXPERTS = "block_sparse_moe.experts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """The text model's parameters; vision is not counted."""

    total: int
    routed: int
    """In routed experts, all of them."""
    active: int
    """That one token multiplies: the chosen experts and everything else but the embedding table."""
    active_with_embedding: int
    active_without_embedding_and_head: int
    tensors: int
    """Tensors of the released checkpoint."""
    by_module: Mapping[str, int]
    """Of the modules that stand directly in the model or in a layer, summed over `layers.*`.

    `self_attn` is counted by class: `layers.*.self_attn:KimiDeltaAttention`.
    """


def parameter_count(case: Case, axes: tuple[str, ...], owner: str) -> Term:
    first, *rest = (case.axis(axis, owner) for axis in axes if axis != "1")
    for axis in rest:
        first = first * axis
    return first


def _numel(case: Case, axes: tuple[str, ...], owner: str) -> int:
    return int(parameter_count(case, axes, owner).value)


def module_parameters(config: KimiConfig, path: str, layer: int | None = None) -> Value:
    """Parameters below `path`, a module or parameter inside `layer` (or, without one, at the top).

    `"layer"` is the whole layer, `"lm"` everything outside the layers, and
    `block_sparse_moe.experts.0` is one routed expert.
    """
    return module_term(config, path, layer).as_value("parameters")


def module_term(config: KimiConfig, path: str, layer: int | None) -> Term:
    """As `module_parameters`, still a term of larger formulas."""
    case = Case(config=config)
    one_expert = path.startswith(f"{EXPERTS}.") and path.split(".")[2].isdecimal()
    name = ".".join([EXPERTS, *path.split(".")[3:]]) if one_expert else path
    parts = [
        # sorted, so that equal sizes are gathered whichever way round the matrix stands
        parameter_count(case, tuple(sorted(axes[1:] if one_expert else axes)), owner)
        for parameter, (owner, axes) in parameter_axes(config, layer).items()
        if _is_below(parameter, name)
    ]
    if not parts and not _is_module(config, path, layer):
        where = "the model's top" if layer is None else f"layer {layer}"
        raise LookupError(f"There is no module {path!r} in {where}.")
    return total(parts)


def _is_below(parameter: str, path: str) -> bool:
    stem = parameter.removesuffix(".weight")
    return path in ("", LAYER, LM) or path in (parameter, stem) or parameter.startswith(f"{path}.")


def _is_module(config: KimiConfig, path: str, layer: int | None) -> bool:
    return layer is not None and path in layer_modules(config, layer)


def layer_total(config: KimiConfig, layer: int | None) -> int:
    """Parameters of one layer, or of everything outside the layers."""
    case = Case(config=config)
    return sum(_numel(case, axes, owner) for owner, axes in parameter_axes(config, layer).values())


def routed_in_layer(config: KimiConfig) -> int:
    """Parameters of all routed experts of one layer."""
    layer = first_layer(config, feed_forward="moe")
    return int(module_parameters(config, EXPERTS, layer).value)


def first_layer(
    config: KimiConfig, *, mixer: str | None = None, feed_forward: str | None = None
) -> int:
    """The first layer of a kind; LookupError when the model has none."""
    for (has_mixer, has_feed_forward), layers in layer_kinds(config).items():
        if mixer in (None, has_mixer) and feed_forward in (None, has_feed_forward):
            return layers[0]
    raise LookupError(f"This model has no layer of the kind {mixer or feed_forward!r}.")


def parameters(config: KimiConfig) -> Parameters:
    kinds = layer_kinds(config)
    everything = layer_total(config, None) + sum(
        len(layers) * layer_total(config, layers[0]) for layers in kinds.values()
    )
    moe_layers = config.feed_forwards.count("moe")
    routed = moe_layers * routed_in_layer(config) if moe_layers else 0
    idle = routed - routed * config.num_experts_per_token // config.num_experts if routed else 0
    embedding = config.vocab_size * config.hidden_size
    head = 0 if config.tie_word_embeddings else embedding
    return Parameters(
        total=everything,
        routed=routed,
        active=everything - idle - embedding,
        active_with_embedding=everything - idle,
        active_without_embedding_and_head=everything - idle - embedding - head,
        tensors=num_tensors(config),
        by_module=MappingProxyType(_by_module(config)),
    )


def _by_module(config: KimiConfig) -> dict[str, int]:
    case = Case(config=config)
    found: dict[str, int] = {}
    for name, (owner, axes) in parameter_axes(config, None).items():
        path = name.partition(".")[0]
        found[path] = found.get(path, 0) + _numel(case, axes, owner)
    for members in layer_kinds(config).values():
        modules = layer_modules(config, members[0])
        for name, (owner, axes) in parameter_axes(config, members[0]).items():
            path = name.partition(".")[0]
            key = f"layers.*.{path}" + (f":{modules[path].cls}" if path == "self_attn" else "")
            found[key] = found.get(key, 0) + len(members) * _numel(case, axes, owner)
    return found


def parameter_sizes(config: KimiConfig, name: str, at: str | None = None) -> tuple[int, ...]:
    """Sizes of one parameter by `Class.name`, as in `KimiMLAAttention.kv_b_proj.weight`.

    `at` says which place of a class that has several; they may differ in width.
    """
    cls, _, inner = name.partition(".")
    case = Case(config=config)
    for layer in (None, *(members[0] for members in layer_kinds(config).values())):
        modules = top_modules(config) if layer is None else layer_modules(config, layer)
        axes_of = parameter_axes(config, layer)
        for path, module in modules.items():
            full = inner if path in (LAYER, LM) else f"{path}.{inner}"
            if module.cls == cls and at in (None, path) and full in axes_of:
                owner, axes = axes_of[full]
                return tuple(int(case.axis(axis, owner).value) for axis in axes)
    raise LookupError(f"This model has no parameter {name!r}{f' at {at}' if at else ''}.")


def storage(config: KimiConfig) -> str:
    """How the weights are stored: the released K3 and K2 are quantized, anything else is bf16."""
    if config == preset("k3"):
        return "mxfp4"
    return "fp8" if config == preset("k2") else "bf16"


def num_tensors(config: KimiConfig) -> int:
    """Tensors of the checkpoint, in which every expert is a tensor of its own."""
    form = storage(config)
    counts = {None: 1} | {layers[0]: len(layers) for layers in layer_kinds(config).values()}
    return sum(
        layers * sum(_files_of(config, form, name, axes) for name, (_, axes) in axes_of.items())
        for layer, layers in counts.items()
        for axes_of in [parameter_axes(config, layer)]
    )


def _files_of(config: KimiConfig, form: str, name: str, axes: tuple[str, ...]) -> int:
    """Tensors that one of our parameters is stored as: itself, its scales, one an expert."""
    experts = config.num_experts if name.startswith(EXPERTS) else 1
    return experts * (2 if _is_quantized(form, name, axes) else 1)


def _is_quantized(form: str, name: str, axes: tuple[str, ...]) -> bool:
    if form == "mxfp4":
        return name.startswith(EXPERTS)
    unquantized = ("embed_tokens", "lm_head", "block_sparse_moe.gate.", "norm")
    return form == "fp8" and len(axes) > 1 and not name.startswith(unquantized)


FLOAT32_PARAMETERS = ("conv1d.weight", "A_log", "dt_bias", "o_norm.weight", "correction_bias")
"""Stored in float32 beside a bf16 trunk, by the end of their names."""


def weight_bytes(config: KimiConfig, below: str = "") -> int:
    """Bytes of the checkpoint's tensors in the released format: all, or those `below` a path."""
    return sum(weight_bytes_by_dtype(config, below).values())


def weight_bytes_by_dtype(config: KimiConfig, below: str = "") -> dict[str, int]:
    """The same by safetensors' words for what they are stored as."""
    counts = {None: 1} | {layers[0]: len(layers) for layers in layer_kinds(config).values()}
    case, form = Case(config=config), storage(config)
    found: dict[str, int] = {}
    for layer, layers in counts.items():
        for name, (owner, axes) in parameter_axes(config, layer).items():
            if _is_below(name, below):
                for dtype, size in _stored_bytes(case, form, name, owner, axes).items():
                    found[dtype] = found.get(dtype, 0) + layers * size
    return found


def _stored_bytes(
    case: Case, form: str, name: str, owner: str, axes: tuple[str, ...]
) -> dict[str, int]:
    count = _numel(case, axes, owner)
    if not _is_quantized(form, name, axes):
        is_wide = name.endswith(FLOAT32_PARAMETERS)
        return {"F32": 4 * count} if is_wide else {"BF16": 2 * count}
    if form == "mxfp4":
        # half a byte a value, and one byte of scale for 32 of them
        return {"U8": count // 2 + count // 32}
    *_, rows, columns = (int(case.axis(axis, owner).value) for axis in axes)
    blocks = math.ceil(rows / 128) * math.ceil(columns / 128)
    return {"F8_E4M3": count, "F32": 4 * blocks * (count // (rows * columns))}
