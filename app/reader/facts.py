"""The facts at the side of a node page: what stands here, what is written, what is kept."""

from dataclasses import dataclass

from markupsafe import Markup

from annotations.kernel import serving
from annotations.node import Node
from annotations.outline import Entry
from app.reader.context import Reading
from app.reader.cost_view import KeptView, all_parameters, parameter_count
from app.reader.kept_words import LabelledFact, appended, kept_facts
from app.reader.numbers import show_int, span
from app.reader.shapes import Row
from app.reader.work_view import total, written_bytes, written_values
from model.cost import fact

OWN_FORM = {"kv_cache": "key", "kda_state": "state"}
"""A node's `cost`, and the stream of its row in the table of kept forms."""
RESIDUAL = {"residual_reads": "All reads of a token", "residual_sources_out": "Most sources"}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of one node at one place."""

    reading: Reading
    entry: Entry
    node: Node
    rows: tuple[Row, ...]
    kept: KeptView | None

    def all(self) -> list[LabelledFact]:
        return [*self._own(), *self._kernels()]

    def _own(self) -> list[LabelledFact]:
        if self.node.kind.startswith("state"):
            return [*self._state(), self._longest()]
        found = [*self._parameters(), *self._residual()]
        own = self._own_form()
        if own is not None:
            added = LabelledFact(label="Added by this call", value=span(appended(own), "bytes"))
            return [*found, *kept_facts(own), added]
        found += self._written()
        if self.node.kind != "group":
            found.append(LabelledFact(label="Kept between calls", value="nothing"))
        return found

    def _kernels(self) -> list[LabelledFact]:
        """Links to the Triton kernels that compute the node; their pages keep its place."""
        links = [
            Markup(
                '<a href="?view=kernel&amp;kernel={}&amp;node={}&amp;at={}" data-view="kernel" '
                'data-kernel="{}" data-node="{}" data-at="{}">{}</a>'
            ).format(
                kernel.id,
                self.entry.node,
                self.entry.instance,
                kernel.id,
                self.entry.node,
                self.entry.instance,
                kernel.title,
            )
            for kernel in serving(self.node.id)
        ]
        return [LabelledFact(label="In Triton", value=Markup(", ").join(links))] if links else []

    def _parameters(self) -> list[LabelledFact]:
        count = parameter_count(self.reading, self.entry)
        if not count:
            return []
        found = [LabelledFact(label="Parameters here", value=show_int(count))]
        whole = sum(all_parameters(self.reading, self.entry).values())
        if not self.entry.children and whole > count:
            label = f"All {show_int(whole // count)} of a layer"
            found.append(LabelledFact(label=label, value=show_int(whole)))
        return found

    def _residual(self) -> list[LabelledFact]:
        if not self.entry.node.startswith("attn_res/"):
            return []
        return [
            LabelledFact(label=label, value=fact(name, self.reading.config).substituted)
            for name, label in RESIDUAL.items()
        ]

    def _written(self) -> list[LabelledFact]:
        size = written_bytes(self.reading, self.rows)
        if size is None:
            return []
        grows = any("source" in row.axes for row in self.rows if row.side == "out")
        label = "Written, at most" if grows else "Written by this call"
        return [LabelledFact(label=label, value=span(size, "bytes"))]

    def _state(self) -> list[LabelledFact]:
        if self.node.cost == "cache":
            return self._whole_cache()
        own = self._own_form()
        values, size = written_values(self.rows), written_bytes(self.reading, self.rows)
        if own is None or own.per_position or values is None or size is None:
            written = appended(own) if own else size
            shown = [] if written is None else [span(written, "bytes")]
            kept = kept_facts(own) if own else []
            return [*kept, *(LabelledFact(label="Written by this call", value=s) for s in shown)]
        # one state of several that a layer keeps; the layer's sum stands below it
        return [
            LabelledFact(label="This state", value=span(values, "int") + " values"),
            LabelledFact(label="In bytes", value=span(size, "bytes")),
            LabelledFact(label="Grows with", value="batch only"),
            LabelledFact(label="Written by this call", value="all of it"),
            LabelledFact(label="All that a layer keeps", value=span(own.bytes, "bytes")),
        ]

    def _whole_cache(self) -> list[LabelledFact]:
        """All layers together, in either form of the attention layers' cache."""
        rows = {row.stream: row for row in self.kept.rows} if self.kept else {}
        found = []
        for stream, label in (("key", "All layers, expanded"), ("latent", "All layers, latent")):
            parts = [rows[s].total_bytes for s in (stream, "state") if s in rows]
            size = total(parts, parts[0].degree) if parts else None
            if size is not None:
                found.append(LabelledFact(label=label, value=span(size, "bytes")))
        return [*found, LabelledFact(label="Grows with", value="context × batch")]

    def _longest(self) -> LabelledFact:
        longest = show_int(self.reading.config.max_position_embeddings)
        return LabelledFact(label="Longest context", value=f"{longest}, not enforced")

    def _own_form(self):
        stream = OWN_FORM.get(self.node.cost)
        rows = self.kept.rows if self.kept else ()
        return next((row for row in rows if row.stream == stream), None)
