"""Short convolution: each channel mixed with its own last few values."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from model.capture import Quick, Tap
from model.kernel_choice import TORCH, Kernels
from model.linear import empty_parameter, rounded, wide
from model.packed import Packed
from model.rows import Rows

Some = Sequence[Tensor]


def short_convolution(
    x: Tensor, weight: Tensor, state: Tensor, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The convolved rows of `x`, `[B, T, D]`, and the last `W` raw columns as the state after them.

    `weight` is `[D, W]`, `state` `[B, D, W]`; `lengths`, `[B]`, says where right padding starts.
    """
    columns = torch.cat([state.mT, x], dim=1)
    # summed in float32, as the weights are kept
    total = over_all_rows(wide(columns), wide(weight))
    return rounded(F.silu(total), x), last_columns(columns, weight.shape[1], lengths)


def over_all_rows(columns: Tensor, weight: Tensor) -> Tensor:
    lag = weight.shape[1]
    pos = columns.shape[1] - lag
    total = columns[:, 1 : 1 + pos] * weight[:, 0]
    for w in range(1, lag):
        total = torch.addcmul(total, columns[:, 1 + w : 1 + w + pos], weight[:, w])
    return total


def last_columns(columns: Tensor, lag: int, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        # copied, so that the state does not keep the whole prompt alive
        return columns[:, -lag:].transpose(1, 2).contiguous()
    index = lengths[:, None] + torch.arange(lag, device=columns.device)
    picked = columns.gather(1, index[..., None].expand(-1, -1, columns.shape[2]))
    return picked.transpose(1, 2).contiguous()


class ShortConvolution(Quick):
    """Depthwise and causal, then SiLU; zeros stand before the first position."""

    def __init__(self, width: int, lag: int, kernels: Kernels = TORCH) -> None:
        super().__init__()
        self.lag = lag
        self.weight = empty_parameter(width, 1, lag)
        self.kernels = kernels
        self.raw = Tap("batch pos d_inner")
        self.convolved = Tap("batch pos d_inner")
        self.state = Tap("batch d_inner lag")

    def forward(self, x: Tensor, state: Tensor | None, rows: Rows) -> tuple[Tensor, Tensor]:
        """The convolved rows, and the last `lag` raw columns as the state after them."""
        raw = self.raw(x)
        if state is None:
            state = raw.new_zeros(raw.shape[0], raw.shape[2], self.lag)
        # a row of four, which beside the weights of other channels does not lie in one piece
        weight = self.weight[:, 0].contiguous()
        convolve = self.kernels.short_convolution or short_convolution
        out, state = convolve(raw, weight, state, rows.lengths)
        return self.convolved(out), self.state(state)


class ShortConvolutions(Packed):
    """Those of q, k and v: no channel meets another, so that at one position they are one."""

    def __init__(self, *each: ShortConvolution, kernels: Kernels = TORCH) -> None:
        super().__init__(*((conv, "weight") for conv in each))
        self.each = each
        self.kernels = kernels

    def convolve(self, raw: Some, states: Some | None, rows: Rows) -> tuple[Some, Some]:
        """The convolved rows of each, and the state of each after them."""
        weight = self.as_one() if self.kernels.short_convolution is None else None
        if rows.pos == 1 and weight is not None and states is not None:
            return self.one_position(raw, states, weight)
        given = zip(self.each, raw, states or [None] * len(raw), strict=True)
        results = [conv(x, state, rows) for conv, x, state in given]
        return [out for out, _ in results], [state for _, state in results]

    def one_position(self, raw: Some, states: Some, weight: Tensor) -> tuple[Some, Some]:
        before = torch.cat([state.mT for state in states], dim=-1)
        new = torch.cat([conv.raw(x) for conv, x in zip(self.each, raw, strict=True)], dim=-1)
        columns = torch.cat([before[:, 1:], new], dim=1)
        total = (wide(columns) * wide(weight.mT)).sum(1, keepdim=True)
        out = rounded(F.silu(total), new).chunk(len(raw), dim=-1)
        states = columns.mT.chunk(len(raw), dim=1)
        return (
            [conv.convolved(x) for conv, x in zip(self.each, out, strict=True)],
            [conv.state(x) for conv, x in zip(self.each, states, strict=True)],
        )
