"""Short convolution: each channel mixed with its own last few values."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.capture import Tap
from model.linear import empty_parameter, wide
from model.rows import Rows


class ShortConvolution(nn.Module):
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
            before = raw.new_zeros(raw.shape[0], self.lag, raw.shape[2])
        else:
            before = state.transpose(1, 2)
        columns = torch.cat([before, raw], dim=1)
        # summed in float32, as the weights are kept
        values, weight, pos = wide(columns), wide(self.weight[:, 0]), raw.shape[1]
        if pos == 1:
            total = (values[:, 1:] * weight.T).sum(1, keepdim=True)
        else:
            total = values[:, 1 : 1 + pos] * weight[:, 0]
            for w in range(1, self.lag):
                total = torch.addcmul(total, values[:, 1 + w : 1 + w + pos], weight[:, w])
        return self.convolved(F.silu(total).to(raw.dtype)), self.state(
            self.last_columns(columns, rows)
        )

    def last_columns(self, columns: Tensor, rows: Rows) -> Tensor:
        if rows.lengths is None:
            # copied, so that the state does not keep the whole prompt alive
            return columns[:, -self.lag :].transpose(1, 2).contiguous()
        index = rows.lengths[:, None] + torch.arange(self.lag, device=columns.device)
        picked = columns.gather(1, index[..., None].expand(-1, -1, columns.shape[2]))
        return picked.transpose(1, 2).contiguous()
