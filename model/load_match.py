"""A checkpoint's files against a model: what is read, what is left out, and the reading itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from model.checkpoint import Checkpoint, read_entries
from model.header import Entry
from model.load_fill import Progress, fill, refuse_padded_rates
from model.load_plan import Part, Shape, beside_the_text, layer_of, plan
from model.load_shards import Shards


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What of a checkpoint goes into a model, settled before any weight is read."""

    checkpoint: Checkpoint
    parts: list[Part]
    """In the order in which they lie in the files."""
    entries: Mapping[str, Entry]
    """Of what is read, by the checkpoint's names."""
    note: str
    """What is left out, in words."""

    def read_into(self, places: Mapping[str, Tensor], progress: Progress | None = None) -> str:
        """Stream the tensors to their places; a note where some are no numbers."""
        total = sum(entry.nbytes for entry in self.entries.values())
        with Shards(self.checkpoint.folder) as shards:

            def tensor_of(name: str) -> Tensor:
                return shards.tensor(self.entries[name])

            refuse_padded_rates(places, self.parts, tensor_of)
            return fill(places, self.parts, tensor_of, progress, total)


def match(
    shapes: Mapping[str, Shape], checkpoint: Checkpoint, layers: int, all_layers: int
) -> Match:
    """Compare the first `layers` of `all_layers` with a checkpoint; ValueError lists all faults.

    Only the files that hold tensors of these layers, or of what is around the layers, are fetched
    and opened, and of these only the headers are read.
    """

    def is_wanted(name: str) -> bool:
        layer = layer_of(name)
        return beside_the_text(name, all_layers) is None and (layer is None or layer < layers)

    files, names = checkpoint.weight_files(is_wanted)
    entries = read_entries(checkpoint.folder, files)
    wanted = [entry for entry in entries if is_wanted(entry.name)]
    by_name = {entry.name: entry for entry in wanted}
    parts = plan(shapes, wanted)
    parts.sort(key=lambda part: (by_name[part.weight].file, by_name[part.weight].start))
    kinds = [beside_the_text(name, all_layers) for name in names | {e.name for e in entries}]
    counts = {kind: kinds.count(kind) for kind in sorted(filter(None, kinds))}
    words = ", ".join(f"{count:,} of {kind}" for kind, count in counts.items())
    note = f"tensors left out: {words}" if words else ""
    return Match(checkpoint=checkpoint, parts=parts, entries=by_name, note=note)
