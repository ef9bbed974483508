"""Facts about what layers keep between calls, and where one form overtakes another."""

from model.cost_facts import fact_in
from model.cost_kept import (
    convolution_values,
    expanded_per_position,
    kda_bytes,
    latent_per_position,
    recurrent_values,
)
from model.cost_sizes import Case
from model.cost_terms import Term, named


@fact_in("values")
def kv_values_per_position(case: Case) -> Term:
    """Expanded keys and values of one layer at one position."""
    return expanded_per_position(case)


@fact_in("bytes")
def kv_bytes_per_position(case: Case) -> Term:
    """The same in bfloat16."""
    return _in_bf16(expanded_per_position(case))


@fact_in("values")
def latent_values_per_position(case: Case) -> Term:
    """Latent and shared key part of one layer at one position."""
    return latent_per_position(case)


@fact_in("bytes")
def latent_bytes_per_position(case: Case) -> Term:
    """The same in bfloat16."""
    return _in_bf16(latent_per_position(case))


@fact_in("values")
def kv_values_per_position_all_layers(case: Case) -> Term:
    """Expanded keys and values of all attention layers at one position."""
    return case.layers("mla") * expanded_per_position(case).named("values of a layer")


@fact_in("bytes")
def kv_bytes_per_position_all_layers(case: Case) -> Term:
    """The same in bfloat16."""
    return case.layers("mla") * kv_bytes_per_position(case).named("bytes of a layer")


@fact_in("values")
def latent_values_per_position_all_layers(case: Case) -> Term:
    """Latent and shared key part of all attention layers at one position."""
    return case.layers("mla") * latent_per_position(case)


@fact_in("bytes")
def latent_bytes_per_position_all_layers(case: Case) -> Term:
    """The same in bfloat16."""
    return case.layers("mla") * latent_bytes_per_position(case)


@fact_in("values")
def kda_recurrent_values(case: Case) -> Term:
    """Recurrent state of one KDA layer, whatever the context."""
    return recurrent_values(case)


@fact_in("values")
def kda_conv_values(case: Case) -> Term:
    """Columns kept for the three short convolutions of one KDA layer."""
    return convolution_values(case)


@fact_in("values")
def kda_state_values(case: Case) -> Term:
    """Everything one KDA layer keeps, whatever the context."""
    return recurrent_values(case) + convolution_values(case)


@fact_in("bytes")
def kda_recurrent_bytes(case: Case) -> Term:
    """Recurrent state of one KDA layer in float32."""
    return recurrent_values(case) * named("4 bytes", 4)


@fact_in("bytes")
def kda_conv_bytes(case: Case) -> Term:
    """Convolution columns of one KDA layer in bfloat16."""
    return _in_bf16(convolution_values(case))


@fact_in("bytes")
def kda_state_bytes(case: Case) -> Term:
    """Everything one KDA layer keeps: the state in float32, the columns in bfloat16."""
    return kda_bytes(case)


@fact_in("values")
def kda_state_values_all_layers(case: Case) -> Term:
    """Everything all KDA layers keep."""
    return case.layers("kda") * kda_state_values(case).named("values of a layer")


@fact_in("bytes")
def kda_recurrent_bytes_all_layers(case: Case) -> Term:
    """Recurrent states of all KDA layers in float32."""
    return case.layers("kda") * kda_recurrent_bytes(case)


@fact_in("bytes")
def kda_state_bytes_all_layers(case: Case) -> Term:
    """Everything all KDA layers keep, in bytes."""
    return case.layers("kda") * kda_state_bytes(case).named("bytes of a layer")


@fact_in("positions")
def kv_equals_kda_at(case: Case) -> Term:
    """Where an expanded cache holds exactly as many values as a KDA layer."""
    state, step = kda_state_values(case), expanded_per_position(case)
    if state.value % step.value:
        raise LookupError("At no position do the expanded cache and a KDA state hold equally much.")
    return state.named("values of a KDA layer") / step.named("values per position")


@fact_in("positions")
def kv_exceeds_kda_from(case: Case) -> Term:
    """From here on an expanded cache holds more values than a KDA layer."""
    return _exceeds(kda_state_values(case), expanded_per_position(case), "values")


@fact_in("positions")
def latent_exceeds_kda_from(case: Case) -> Term:
    """From here on a latent cache holds more values than a KDA layer."""
    return _exceeds(kda_state_values(case), latent_per_position(case), "values")


@fact_in("positions")
def kv_bytes_exceed_kda_from(case: Case) -> Term:
    """From here on an expanded cache takes more bytes than a KDA layer."""
    return _exceeds(kda_state_bytes(case), kv_bytes_per_position(case), "bytes")


@fact_in("positions")
def latent_bytes_exceed_kda_from(case: Case) -> Term:
    """From here on a latent cache takes more bytes than a KDA layer."""
    return _exceeds(kda_state_bytes(case), latent_bytes_per_position(case), "bytes")


def _exceeds(state: Term, step: Term, unit: str) -> Term:
    return state.named(f"{unit} of a KDA layer") // step.named(f"{unit} per position") + 1


def _in_bf16(values: Term) -> Term:
    return values * named("2 bytes", 2)
