"""Readers who share one model never see each other's tensors."""

from concurrent.futures import ThreadPoolExecutor

import torch

from model.capture import capture, tap_names
from model.load import build

THREADS, TRACES = 4, 240


def test_240_traces_from_four_threads_hold_no_value_of_another():
    lm = build("tiny-k3")
    names = tap_names(lm)
    prompts = [torch.randint(0, 256, (1, 5 + 3 * i)) for i in range(8)]

    def trace(index):
        with capture() as recording:
            lm(prompts[index % len(prompts)])
        return index % len(prompts), recording.named(names)

    alone = [trace(index)[1] for index in range(len(prompts))]
    with ThreadPoolExecutor(THREADS) as pool:
        traces = list(pool.map(trace, range(TRACES)))
    assert len(traces) == TRACES
    wrong = [
        (which, name)
        for which, tensors in traces
        for name in alone[which]
        if name not in tensors or not torch.equal(tensors[name], alone[which][name])
    ]
    assert not wrong, wrong[:5]
