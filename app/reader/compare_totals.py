"""What two models take as a whole, number beside number, at the context on screen."""

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from app.reader.context import Reading
from app.reader.numbers import Formula, constant, formula, ratio, span
from app.reader.overview import layer_kinds
from app.reader.work_view import model_operations
from model.config import KimiConfig
from model.cost import Case, Phase, fact, total_kept_bytes
from model.cost_kept import Kind


@dataclass(frozen=True, kw_only=True)
class Total:
    label: str
    note: str
    older: Markup | str
    newer: Markup | str
    times: Markup | str
    """How many times the older number the newer is."""


Count = Callable[[KimiConfig], Formula | None]


def totals(older: Reading, newer: Reading) -> list[Total]:
    """Layers, then everything that is a number of both or of one of them."""
    layers = Total(
        label="Layers",
        note="by what mixes tokens",
        older=layer_kinds(older.config),
        newer=layer_kinds(newer.config),
        times=ratio(*(constant(r.config.num_hidden_layers) for r in (newer, older))),
    )
    rows = [_total(older.config, newer.config, *row) for row in _ROWS]
    return [layers, *rows]


def _total(
    older: KimiConfig, newer: KimiConfig, label: str, note: str, fmt: str, count: Count
) -> Total:
    before, after = count(older), count(newer)
    return Total(
        label=label,
        note=note,
        older="none" if before is None else span(before, fmt),
        newer="none" if after is None else span(after, fmt),
        times=_times(after, before),
    )


def _times(after: Formula | None, before: Formula | None) -> Markup | str:
    if after is None or before is None:
        return "–"
    return "the same" if after == before else ratio(after, before)


def _fact(name: str) -> Count:
    def count(config: KimiConfig) -> Formula | None:
        try:
            return constant(fact(name, config).value)
        except LookupError:
            return None

    return count


def _operations(phase: Phase) -> Count:
    """Of the whole model for one sequence, in a phase of its own, whatever phase is on screen."""

    def count(config: KimiConfig) -> Formula:
        call = model_operations(config)
        grown = call.decode if phase == "decode" else call.prefill
        return Formula(grown, grown, 0)

    return count


def _kept(form: Kind) -> Count:
    def count(config: KimiConfig) -> Formula:
        return formula(
            lambda b, p, ph: total_kept_bytes(Case(config=config, batch=b, positions=p), form)
        )

    return count


_ROWS: tuple[tuple[str, str, str, Count], ...] = (
    ("Parameters", "of the text model", "int", _fact("text_parameters")),
    ("Active for a token", "the embedding table left out", "int", _fact("active_parameters")),
    ("Weights", "as released", "bytes", _fact("weight_bytes_released")),
    ("FLOPs for one token", "a decode step at this context", "flops", _operations("decode")),
    ("FLOPs for a prompt", "a prefill of this context", "flops", _operations("prefill")),
    ("Kept whatever the context", "KDA memory, all layers", "bytes",
     _fact("kda_state_bytes_all_layers")),
    ("Kept for a position, expanded", "keys and values, all layers", "bytes",
     _fact("kv_bytes_per_position_all_layers")),
    ("Kept for a position, latent", "latent and shared key, all layers", "bytes",
     _fact("latent_bytes_per_position_all_layers")),
    ("Kept at this context, expanded", "everything, as released", "bytes", _kept("expanded")),
    ("Kept at this context, latent", "everything, absorbed decode", "bytes", _kept("latent")),
    ("Longest context", "of the configuration", "int", _fact("max_positions")),
)  # fmt: skip
