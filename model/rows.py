"""Which rows of a call are tokens and which are padding, and what each may look at."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


def visible_keys(pos: int, src: int, real: Tensor | None, device: torch.device) -> Tensor | None:
    """`[batch or 1, 1, pos, src]`: the keys each query may see; `None` where it sees all.

    The queries are the last `pos` of `src` positions. `real`, `[batch, src]`, is false for padding.
    """
    if pos == 1 and real is None:
        return None
    column = torch.arange(src, device=device)
    causal = column <= torch.arange(src - pos, src, device=device)[:, None]
    if real is None:
        return causal[None, None]
    return causal[None, None] & real[:, None, None, :]


@dataclass
class Rows:
    """The positions of one call: `past` columns lie in the cache, `pos` are new."""

    batch: int
    pos: int
    past: int
    device: torch.device
    lengths: Tensor | None
    """True length of each sequence of this call; `None` where none is padded."""
    past_real: Tensor | None
    """`[batch, past]`: cached columns that hold a token; `None` where all do."""

    @cached_property
    def real(self) -> Tensor | None:
        """`[batch, pos]`: rows that hold a token; `None` where all do."""
        if self.lengths is None:
            return None
        return torch.arange(self.pos, device=self.device) < self.lengths[:, None]

    @cached_property
    def real_after(self) -> Tensor | None:
        """`[batch, past + pos]`: columns that hold a token once this call is cached."""
        if self.real is None and self.past_real is None:
            return None
        every = torch.ones(self.batch, self.past, dtype=torch.bool, device=self.device)
        past = every if self.past_real is None else self.past_real
        new = torch.ones(self.batch, self.pos, dtype=torch.bool, device=self.device)
        return torch.cat([past, new if self.real is None else self.real], dim=1)

    @cached_property
    def positions(self) -> Tensor:
        """`[batch or 1, pos]`: tokens before each row in its sequence; padding does not count."""
        new = torch.arange(self.pos, device=self.device)
        if self.past_real is None:
            return new[None] + self.past
        return new + self.past_real.sum(1, keepdim=True)

    def only_real(self, x: Tensor) -> Tensor:
        """`x` of `[batch, pos, …]` with zeros in the padding."""
        if self.real is None:
            return x
        return x.masked_fill(~self.real.view(*self.real.shape, *[1] * (x.ndim - 2)), 0)
