"""Faults planted in every part of the model turn equations red, and nothing else does"""

import dataclasses

import pytest
import torch

from model import capture
from model.identities.registry import IDENTITIES, check
from model.load import build
from model.presets import TINY, preset
from model.trace import run
from tests.maths.mutations.fault import DECODE, PREFILL, function_at, planted
from tests.maths.mutations.registry import FAULTS

PROMPT = [(31 * i + 7) % 256 for i in range(37)]
"""More than a chunk of the delta rule."""
FED = {PREFILL: (PROMPT, 0), DECODE: (PROMPT[:1], 3)}
"""Prompt and generated tokens; a prompt of one token is already fed as decode feeds them."""
SHRUNK = ("embed_tokens.weight", "q_a_proj.weight", "kv_a_proj_with_mqa.weight")

UNIT = ("q_proj.weight", "k_proj.weight")
"""In a KDA mixer, what queries and keys of unit length come from."""

CAUGHT = [fault for fault in FAULTS if not fault.missed]
MISSED = [fault for fault in FAULTS if fault.missed]


def model_of(name, changes=None):
    """Weights under which no term hides: norms are not one, and inputs of norms are small."""
    lm = build(dataclasses.replace(preset(name), **(changes or {})))
    generator = torch.Generator().manual_seed(5)

    def noise(parameter):
        return torch.randn(parameter.shape, generator=generator).to(parameter.dtype)

    parameters = dict(lm.named_parameters())
    with torch.no_grad():
        for path, parameter in parameters.items():
            mixer, _, leaf = path.rpartition(".self_attn.")
            is_unit = leaf in UNIT and f"{mixer}.self_attn.A_log" in parameters
            if path.endswith("e_score_correction_bias"):
                parameter.add_(noise(parameter), alpha=0.2)
            elif path.endswith(("norm.weight", "A_log")):
                parameter.add_(noise(parameter), alpha=0.3)
            elif path.endswith(SHRUNK) or is_unit:
                parameter.mul_(0.02)
    return lm


def results_of(lm, phase, mla="expanded"):
    prompt, new_tokens = FED[phase]
    trace = run(lm, prompt, new_tokens=new_tokens, mla=mla)
    return check(trace, lm)


def red(fault):
    with planted(fault):
        lm = model_of(fault.model, fault.changes)
        results = results_of(lm, fault.phase, fault.mla)
    return {result.name for result in results if not result.passed}


@pytest.mark.parametrize("mla", ["expanded", "latent"])
@pytest.mark.parametrize("phase", FED)
@pytest.mark.parametrize("name", TINY)
def test_without_a_fault_everything_is_green(name, phase, mla):
    results = results_of(model_of(name), phase, mla)
    assert len(results) > 40
    assert not [(r.name, r.error, r.place) for r in results if not r.passed]


@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if f.changes or f.constants], ids=lambda fault: fault.says
)
def test_what_a_fault_changes_beside_the_function_is_green_by_itself(fault):
    with planted(dataclasses.replace(fault, edits=())):
        results = results_of(model_of(fault.model, fault.changes), fault.phase, fault.mla)
    assert not [(r.name, r.error, r.place) for r in results if not r.passed]


@pytest.mark.parametrize("fault", CAUGHT, ids=lambda fault: f"{fault.owner} {fault.says}")
def test_a_fault_turns_its_equations_red(fault):
    assert fault.red
    assert fault.red <= red(fault)


@pytest.mark.parametrize("fault", MISSED, ids=lambda fault: f"{fault.owner} {fault.says}")
def test_a_fault_that_changes_no_value_stays_green(fault):
    assert not fault.red
    assert not red(fault)


def test_nineteen_of_twenty_faults_are_caught():
    assert len(CAUGHT) >= 0.95 * len(FAULTS)
    assert len(CAUGHT) >= 40


def test_every_equation_is_turned_red_by_some_fault():
    noticed = set().union(*(fault.red for fault in FAULTS))
    assert noticed == IDENTITIES.keys()


def test_every_class_with_taps_has_a_fault():
    lms = [build(name, device="meta") for name in TINY]
    owners = {
        type(lm.get_submodule(path.rpartition(".")[0])).__name__
        for lm in lms
        for path in capture.tap_names(lm).values()
    }
    assert owners <= {fault.owner for fault in FAULTS}


@pytest.mark.parametrize("phase", FED)
@pytest.mark.parametrize("name", TINY)
def test_every_model_has_faults_in_every_phase(name, phase):
    assert len([f for f in CAUGHT if f.model == name and f.phase == phase]) >= 10


def test_no_fault_is_planted_twice():
    assert len({(f.where, f.edits, f.model, f.phase) for f in FAULTS}) == len(FAULTS)


def test_a_function_is_whole_again_after_its_fault():
    fault = FAULTS[0]
    function = function_at(fault.where)
    before = function.__code__
    with planted(fault):
        assert function.__code__ is not before
    assert function.__code__ is before


def test_a_fault_that_no_longer_fits_the_source_is_refused():
    stale = dataclasses.replace(FAULTS[0], edits=(("what nobody wrote", ""),))
    with pytest.raises(LookupError, match="0 times"), planted(stale):
        pass
