"""Short convolution: each channel mixed with its own last few values."""

import torch
import torch.nn.functional as F
from torch import Tensor

from model.capture import Quick, Tap
from model.linear import empty_parameter, wide
from model.rows import Rows


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
        if raw.shape[1] == 1:
            state = torch.cat([state[..., 1:], raw.mT], dim=-1)
            total = (wide(state) * weight).sum(-1)[:, None]
        else:
            columns = torch.cat([state.mT, raw], dim=1)
            total = self.over_all_rows(wide(columns), weight)
            state = self.last_columns(columns, rows)
        return self.convolved(F.silu(total).to(raw.dtype)), self.state(state)

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
