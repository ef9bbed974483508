"""The matrix of a projection, without a bias, and the dtype in which sums are taken."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.capture import Quick


class Linear(Quick):
    """`x Wᵀ`. Parameters are born on the meta device; `model/load.py` gives them storage."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.weight = empty_matrix(width_out, width_in)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


def empty_parameter(*shape: int) -> nn.Parameter:
    """A parameter without storage, so that a model of any size is built in a moment."""
    return nn.Parameter(torch.empty(shape, device="meta"), requires_grad=False)


def empty_matrix(*shape: int) -> nn.Parameter:
    """As `empty_parameter`, laid out in memory column by column.

    A single position then reads each matrix from start to end, in half the time.
    """
    *stack, rows, columns = shape
    return nn.Parameter(torch.empty(*stack, columns, rows, device="meta").mT, requires_grad=False)


def rounded(x: Tensor, like: Tensor) -> Tensor:
    """`x` in the dtype of `like`, where upstream leaves float32 again."""
    return x if x.dtype == like.dtype else x.to(like.dtype)


def wide(x: Tensor) -> Tensor:
    """Float32, as upstream computes what is delicate; float64 stays what it is."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()
