"""The parameters of a model in one row, on which the optimizer works.

Parameters that are read together lie in one storage, column by column, with gaps. The fused
optimizer walks over memory as if there were none, and says nothing; here there are none.
"""

import torch
from torch import Tensor

from model.kimi import KimiLM
from model.training.gradient import flat, spread, trained
from model.training.recipe import Recipe


class Row:
    """Every trained parameter of `lm`, and after them its routers' biases, one after another."""

    def __init__(self, lm: KimiLM) -> None:
        shrunk, kept = trained(lm)
        others = [p for p in lm.parameters() if not p.requires_grad]
        self.parameters = [*shrunk, *kept, *others]
        self.values = flat(self.parameters)
        sizes = [sum(p.numel() for p in part) for part in (shrunk, kept, others)]
        self.shrunk, self.kept, self.others = self.values.split(sizes)

    def read(self) -> None:
        """Take the values of the model."""
        self.values.copy_(flat(self.parameters))

    def write(self) -> None:
        """Give the model these values."""
        with torch.no_grad():
            for parameter, value in zip(
                self.parameters, spread(self.values, self.parameters), strict=True
            ):
                parameter.copy_(value)


class Optimizer:
    """AdamW on a row: it shrinks matrices and leaves the others their size."""

    def __init__(self, row: Row, recipe: Recipe) -> None:
        self.clip = recipe.clip
        self.shrunk, self.kept = (torch.nn.Parameter(part) for part in (row.shrunk, row.kept))
        self.adam = torch.optim.AdamW(
            [
                {"params": [self.shrunk], "weight_decay": recipe.weight_decay},
                {"params": [self.kept], "weight_decay": 0.0},
            ],
            lr=recipe.peak,
            betas=recipe.betas,
            fused=True,
        )

    def step(self, gradient: Tensor, rate: float) -> bool:
        """Change the row, unless the gradient is not finite; whether it was."""
        self.shrunk.grad, self.kept.grad = gradient.split([len(self.shrunk), len(self.kept)])
        norm = torch.nn.utils.clip_grad_norm_([self.shrunk, self.kept], self.clip)
        if not bool(norm.isfinite()):
            return False
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        return True
