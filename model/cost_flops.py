"""FLOPs of a tap, a module, a layer or a model, in prefill and in decode."""

from model.config import KimiConfig
from model.cost_kept import Kind
from model.cost_modules import LAYER, LM, Module, layer_modules, parameter_axes, top_modules
from model.cost_operations import OPERATIONS, Place
from model.cost_parameters import parameter_count
from model.cost_sizes import Case, Phase
from model.cost_terms import Term, Value, named, term, total

CHUNK = 64
"""Rows that the released kernels of Kimi Delta Attention work on at a time in prefill."""

DELTA_RULE = ("decayed_state", "recalled", "written", "state", "read")
"""Taps of the recurrence, which prefill computes in chunks."""


def flops(
    config: KimiConfig,
    what: str,
    *,
    batch: int = 1,
    positions: int = 4096,
    phase: Phase = "decode",
    layer: int | None = None,
    at: str | None = None,
    mla: Kind = "expanded",
) -> Value:
    """Operations of one call for a batch.

    `what` is a tap (`KimiMLAAttention.scores`), a module or a projection by its path (`self_attn`,
    `self_attn.kv_b_proj`, `norm`), `"layer"`, or `"lm"` for the whole model. `layer` is needed for
    anything inside a layer except a tap whose class alone decides; `at` says where a class stands
    that has several places. A tap of the delta rule is counted as the equation is written; the
    mixer's own sum in prefill takes the chunked form.
    """
    case = Case(config=config, batch=batch, positions=positions, phase=phase, layer=layer)
    if what == LM:
        return model_flops(case, mla).as_value("FLOP")
    if what in OPERATIONS or _is_tap(what):
        return _tap(case, what, at, mla).as_value("FLOP")
    modules = _modules(case, what)
    if what not in modules:
        return _projection(case, what).as_value("FLOP")
    parts = _parts(case, modules, what, mla)
    return _sum(_by_module(parts) if what == LAYER else parts).as_value("FLOP")


def _by_module(parts: dict[str, Term]) -> dict[str, Term]:
    """A layer's parts gathered by the modules that stand directly in it."""
    groups: dict[str, int] = {}
    for name, part in parts.items():
        group = name.partition(".")[0] if "." in name else "residual additions"
        groups[group] = groups.get(group, 0) + int(part.value)
    return {name: named(name, value) for name, value in groups.items()}


def _is_tap(what: str) -> bool:
    return what[:1].isupper()


def _modules(case: Case, path: str) -> dict[str, Module]:
    top = top_modules(case.config)
    if path in top or path.split(".")[0] in ("embed_tokens", "lm_head", "output_attn_res"):
        return top
    layer = int(case.this_layer().value)
    return layer_modules(case.config, layer)


def _tap(case: Case, name: str, at: str | None, mla: Kind) -> Term:
    cls = name.partition(".")[0]
    places = {
        path: module
        for layer in ([case.layer] if case.layer is not None else range(len(case.config.mixers)))
        for path, module in layer_modules(case.config, layer).items()
        if module.cls == cls
    } | {path: module for path, module in top_modules(case.config).items() if module.cls == cls}
    if at is not None:
        places = {path: module for path, module in places.items() if path == at}
    if not places:
        raise LookupError(f"No {cls} stands {'there' if at or case.layer else 'in this model'}.")
    distinct = {module.feature for module in places.values()}
    if len(distinct) > 1 or (cls == "AttnResidual" and len(places) > 1):
        raise LookupError(f"{cls} stands in several places; say at= one of {sorted(places)}.")
    path, module = next(iter(places.items()))
    operation = OPERATIONS.get(name)
    if operation is None:
        return term(0)
    return operation(Place(case=case, path=path, module=module, mla=mla))


def _projection(case: Case, path: str) -> Term:
    """One matrix by its path, without `.weight`."""
    layer = None if path == "lm_head" else case.layer
    for name, (owner, axes) in parameter_axes(case.config, layer).items():
        if name == f"{path}.weight" and len(axes) == 2:
            return 2 * case.tokens * parameter_count(case, axes, owner)
    raise LookupError(f"There is no tap, module or projection {path!r} here.")


def _parts(case: Case, modules: dict[str, Module], path: str, mla: Kind) -> dict[str, Term]:
    """Operations of everything at or below `path`, by tap."""
    parts: dict[str, Term] = {}
    for inner, module in modules.items():
        if path != LAYER and inner != path and not inner.startswith(f"{path}."):
            continue
        place = Place(case=case, path=inner, module=module, mla=mla)
        stem = "" if inner in (path, LAYER) else f"{inner.removeprefix(f'{path}.')}."
        chunked = module.cls == "KimiDeltaAttention" and case.phase == "prefill"
        for tap, operation in OPERATIONS.items():
            cls, _, attribute = tap.partition(".")
            if cls != module.cls or (chunked and attribute in DELTA_RULE):
                continue
            if module.cls == "AttnResidual" and (place.sources.value == 0 or attribute == "query"):
                # the query is folded once, whatever the tokens
                continue
            parts[f"{stem}{attribute}"] = operation(place)
        if chunked:
            parts[f"{stem}delta rule in chunks"] = _chunks(place)
    return parts


def _chunks(place: Place) -> Term:
    """The delta rule of a batch, chunk by chunk, as the Kimi Linear report counts it."""
    positions, width, rows = place.case.queries, place.size("d_key"), named("chunk", CHUNK)
    in_state = 6 * positions * width * width
    in_chunk = 3 * positions * rows * width + positions * rows * rows
    return place.case.size("batch") * place.size("head") * (in_state + in_chunk)


def _sum(parts: dict[str, Term]) -> Term:
    if len(parts) == 1:
        return next(iter(parts.values()))
    return total(part.named(name) for name, part in parts.items() if part.value)


def model_flops(case: Case, mla: Kind = "expanded") -> Term:
    """Layers that do the same work are computed once and multiplied."""
    config = case.config
    sums = {"KDA layers": 0, "MLA layers": 0}
    known: dict[tuple[str, str, int, int], int] = {}
    for layer, (mixer, ffn) in enumerate(zip(config.mixers, config.feed_forwards, strict=True)):
        before = config.bank_size(layer - 1) if layer else -1
        key = mixer, ffn, before, config.bank_size(layer)
        if key not in known:
            here = Case(
                config=config,
                batch=case.batch,
                positions=case.positions,
                phase=case.phase,
                layer=layer,
            )
            parts = _parts(here, layer_modules(config, layer), LAYER, mla)
            known[key] = sum(int(part.value) for part in parts.values())
        sums[f"{mixer.upper()} layers"] += known[key]
    top = top_modules(config)
    for path in top:
        parts = _parts(case, {path: top[path]}, path, mla)
        name = "logits" if path == LM else path
        sums[name] = sum(int(part.value) for part in parts.values())
    return total(named(name, value) for name, value in sums.items() if value)
