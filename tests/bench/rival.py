"""The other implementation, in a process of its own, timed on request.

    python -P rival.py mlx|transformers FOLDER

Reads one request a line, `prefill LENGTH` or `decode LENGTH STEPS`, and answers with the seconds
that it took. Runs from another directory, because `transformers` looks for a package `kernels`.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path


class Mlx:
    """mlx-lm's K3 on the CPU."""

    def __init__(self, folder: Path) -> None:
        import mlx.core as mx
        from mlx_lm.models import kimi_k3

        mx.set_default_device(mx.cpu)
        text_config = json.loads((folder / "config.json").read_text())
        args = {"model_type": "kimi_k3", "text_config": text_config}
        self.mx = mx
        self.model = kimi_k3.Model(kimi_k3.ModelArgs.from_dict(args))
        weights = self.model.sanitize(dict(mx.load(str(folder / "model.safetensors"))))
        self.model.load_weights(list(weights.items()), strict=True)
        self.model.eval()
        mx.eval(self.model.parameters())

    def prefill(self, length: int) -> Callable[[], None]:
        tokens = self.mx.arange(length)[None]
        return lambda: self.mx.eval(self.model(tokens))

    def decode(self, length: int, steps: int) -> Callable[[], None]:
        cache = self.model.make_cache()
        self.mx.eval(self.model(self.mx.arange(length)[None], cache=cache))

        def run() -> None:
            for step in range(steps):
                self.mx.eval(self.model(self.mx.array([[step]]), cache=cache))

        return run


class Transformers:
    """Kimi-Linear of transformers, in eager mode and without capture."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import DynamicCache, KimiLinearForCausalLM

        self.torch = torch
        self.new_cache = DynamicCache
        self.model = KimiLinearForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        ).eval()

    def prefill(self, length: int) -> Callable[[], None]:
        tokens = self.torch.arange(length)[None]

        def run() -> None:
            with self.torch.inference_mode():
                self.model(tokens, use_cache=False)

        return run

    def decode(self, length: int, steps: int) -> Callable[[], None]:
        cache = self.new_cache(config=self.model.config)
        with self.torch.inference_mode():
            self.model(self.torch.arange(length)[None], cache=cache, use_cache=True)

        def run() -> None:
            with self.torch.inference_mode():
                for step in range(steps):
                    self.model(self.torch.tensor([[step]]), cache=cache, use_cache=True)

        return run


RIVALS = {"mlx": Mlx, "transformers": Transformers}


def main(kind: str, folder: str) -> None:
    rival = RIVALS[kind](Path(folder))
    print("ready", flush=True)
    for line in sys.stdin:
        name, *sizes = line.split()
        run = getattr(rival, name)(*map(int, sizes))
        start = time.perf_counter()
        run()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
