"""Short convolution: each channel mixed with its own last few values."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from model.capture import Quick, Tap
from model.linear import empty_parameter, rounded, wide
from model.packed import Packed
from model.rows import Rows

Some = Sequence[Tensor]


class ShortConvolution(Quick):
    """Depthwise and causal, then SiLU; zeros stand before the first position."""

    def __init__(self, width: int, lag: int) -> None:
        super().__init__()
        self.lag = lag
        self.weight = empty_parameter(width, 1, lag)
        self.raw = Tap("batch pos d_inner")
        self.convolved = Tap("batch pos d_inner")
        self.state = Tap("batch d_inner lag")

    def forward(self, x: Tensor, state: Tensor | None, rows: Rows) -> tuple[Tensor, Tensor]:
        """The convolved rows, and the last `lag` raw columns as the state after them."""
        raw = self.raw(x)
        if state is None:
            state = raw.new_zeros(raw.shape[0], raw.shape[2], self.lag)
        # summed in float32, as the weights are kept
        weight = wide(self.weight[:, 0])
        columns = torch.cat([state.mT, raw], dim=1)
        total = self.over_all_rows(wide(columns), weight)
        state = self.last_columns(columns, rows)
        return self.convolved(rounded(F.silu(total), raw)), self.state(state)

    def over_all_rows(self, columns: Tensor, weight: Tensor) -> Tensor:
        pos = columns.shape[1] - self.lag
        total = columns[:, 1 : 1 + pos] * weight[:, 0]
        for w in range(1, self.lag):
            total = torch.addcmul(total, columns[:, 1 + w : 1 + w + pos], weight[:, w])
        return total

    def last_columns(self, columns: Tensor, rows: Rows) -> Tensor:
        if rows.lengths is None:
            # copied, so that the state does not keep the whole prompt alive
            return columns[:, -self.lag :].transpose(1, 2).contiguous()
        index = rows.lengths[:, None] + torch.arange(self.lag, device=columns.device)
        picked = columns.gather(1, index[..., None].expand(-1, -1, columns.shape[2]))
        return picked.transpose(1, 2).contiguous()


class ShortConvolutions(Packed):
    """Those of q, k and v: no channel meets another, so that at one position they are one."""

    def __init__(self, *each: ShortConvolution) -> None:
        super().__init__(*((conv, "weight") for conv in each))
        self.each = each

    def convolve(self, raw: Some, states: Some | None, rows: Rows) -> tuple[Some, Some]:
        """The convolved rows of each, and the state of each after them."""
        weight = self.as_one()
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
