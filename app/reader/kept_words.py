"""What the table of kept forms says, as sentences and as facts at the side."""

from dataclasses import dataclass

from markupsafe import Markup

from app.reader.context import Reading
from app.reader.cost_view import KeptRow, KeptView
from app.reader.numbers import Formula, show_int, span
from model.cost import fact


@dataclass(frozen=True, kw_only=True)
class LabelledFact:
    label: str
    value: Markup | str


def sentences(reading: Reading, view: KeptView) -> list[Markup]:
    """What the crossing chart says, beside it."""
    form = {row.stream: row for row in view.rows}
    said = []
    if (big := form.get("key")) and (state := form.get("state")):
        said.append(
            Markup(
                'An expanded cache holds <b data-f="{}" data-b="1" data-over="{}" '
                'data-fmt="times">{}</b> what a KDA layer keeps, in values.'
            ).format(
                big.values.text(),
                state.values.text(),
                f"{big.values.at() / state.values.at():.1f} times",
            )
        )
    for crossing in view.crossings:
        said.append(
            Markup("The {} <b>{}</b> positions on.").format(
                crossing.means.removesuffix(" from here") + " from", show_int(crossing.at)
            )
        )
    if "kda" in reading.config.mixers:
        said.append(
            Markup(
                "In bytes it takes {} positions, and {} in the latent form: "
                "the KDA state is float32."
            ).format(
                *(
                    show_int(fact(name, reading.config).value)
                    for name in ("kv_bytes_exceed_kda_from", "latent_bytes_exceed_kda_from")
                )
            )
        )
    if big and (small := form.get("latent")):
        said.append(
            Markup(
                "Each decoded token reads the whole cache: <b>{}</b> over the {} layers, "
                "or {} in the latent form."
            ).format(span(big.total_bytes, "bytes"), big.layers, span(small.total_bytes, "bytes"))
        )
    return said


def appended(row: KeptRow) -> Formula:
    """Bytes that one call adds to or overwrites in what a layer keeps."""
    if not row.per_position:
        return row.bytes
    step = row.bytes.decode[1]
    return Formula((step, 0, 0), (0, step, 0), 1)


def kept_facts(row: KeptRow) -> list[LabelledFact]:
    if not row.per_position:
        return [
            LabelledFact(label="Kept by a layer", value=f"{show_int(row.values.at())} values"),
            LabelledFact(label="In bytes", value=span(row.bytes, "bytes")),
            LabelledFact(label="Grows with", value="batch only"),
        ]
    return [
        LabelledFact(label="Kept per position", value=f"{show_int(row.per_position)} values"),
        LabelledFact(label="In bfloat16", value=f"{show_int(2 * row.per_position)} B"),
        LabelledFact(label="Grows with", value="context × batch"),
    ]
