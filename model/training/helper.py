"""A second process that works out half of every step's gradient."""

import time
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch
from torch import Tensor

from model.config import KimiConfig
from model.memory import keep_freed_pages
from model.training.gradient import Half, bfloat16_products, half
from model.training.pools import Pools
from model.training.start import model_to_train
from model.training.weights_in_row import Row


class Helper:
    """Weights go there and a gradient comes back through memory that both processes see."""

    def __init__(self, row: Row, config: KimiConfig, pools: Pools) -> None:
        row.values.share_memory_()
        self.gradient = torch.cat([row.shrunk, row.kept]).share_memory_()
        context = get_context("spawn")
        self.pipe, there = context.Pipe()
        given = (there, config, pools, row.values, self.gradient)
        self.process = context.Process(target=serve, args=given, daemon=True)
        self.process.start()
        there.close()

    def begin(self, step: int) -> None:
        """Work out a step at the weights that the row has now, and until `finish`."""
        self.pipe.send(step)

    def finish(self) -> tuple[Half, float]:
        """The half, and the processor seconds that it took there."""
        try:
            found, seconds = self.pipe.recv()
        except EOFError:
            raise ValueError("The second process is gone; add --resume to go on.") from None
        if isinstance(found, Exception):
            raise found
        return found._replace(gradient=self.gradient), seconds

    def close(self) -> None:
        self.pipe.close()
        self.process.join(timeout=10)


def serve(
    pipe: Connection, config: KimiConfig, pools: Pools, weights: Tensor, gradient: Tensor
) -> None:
    """Half of each step that is asked for, until nobody asks."""
    torch.set_num_threads(1)
    keep_freed_pages()
    lm = model_to_train(config, 0)
    row = Row(lm)
    row.values = weights
    with bfloat16_products():
        while (step := asked(pipe)) is not None:
            begun = time.process_time()
            try:
                row.write()
                found = half(lm, pools.at(step), 1)
                gradient.copy_(found.gradient)
            except Exception as error:
                pipe.send((error, 0.0))
                return
            # what is small goes through the pipe
            pipe.send((found._replace(gradient=torch.empty(0)), time.process_time() - begun))


def asked(pipe: Connection) -> int | None:
    try:
        return pipe.recv()
    except EOFError:
        return None
