"""What fits on GPUs of a given memory: how many hold the weights, and how long a context may be."""

from dataclasses import dataclass
from math import ceil

from model.config import KimiConfig
from model.cost import Case, kept, total_kept_bytes, weight_bytes
from model.cost_kept import Kind

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One model on the fewest GPUs that hold its weights and one position."""

    gpus: int
    memory: int
    """Bytes of all of them."""
    weights: int
    state: int
    """Bytes that one sequence keeps at any length."""
    per_position: int
    longest: int
    """Positions of one sequence, at most those of the model."""
    limit: int

    @property
    def room(self) -> int:
        """Bytes left for a context beside weights and state."""
        return self.memory - self.weights - self.state

    @property
    def is_whole(self) -> bool:
        return self.longest == self.limit


def fit(config: KimiConfig, memory: float, form: Kind, dtype: str = "bfloat16") -> Fit:
    """`memory` is that of one GPU in GiB; weights are as released, batch 1, no activations."""
    if not memory > 0:
        raise ValueError(f"Got a memory of {memory!r} GiB; it must be more than 0.")
    size, weights = int(memory * GIB), weight_bytes(config)
    state = total_kept_bytes(Case(config=config, positions=0), form, dtype)
    per_position = int(kept(config, form, positions=1, dtype=dtype).total_bytes.value)
    gpus = ceil((weights + state + per_position) / size)
    limit = config.max_position_embeddings
    longest = min(limit, (gpus * size - weights - state) // per_position)
    return Fit(
        gpus=gpus,
        memory=gpus * size,
        weights=weights,
        state=state,
        per_position=per_position,
        longest=longest,
        limit=limit,
    )
