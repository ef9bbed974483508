"""Facts about arithmetic and about what a decoded token makes a machine read."""

from dataclasses import replace

from model.cost_facts import fact_in
from model.cost_flops import model_flops
from model.cost_sizes import Case
from model.cost_terms import Term
from model.cost_traffic import cache_read, weights_read


@fact_in("FLOP")
def call_flops(case: Case) -> Term:
    """Work of one call: a prefill of the context, or one more token of each sequence."""
    return model_flops(case)


@fact_in("bytes")
def weight_bytes_read(case: Case) -> Term:
    """Weights that one decoded token reads, in the format they are released in."""
    return weights_read(replace(case, batch=1))


@fact_in("bytes")
def cache_bytes_read(case: Case) -> Term:
    """Keys, values and states that one decode step reads, as the released code keeps them."""
    return cache_read(case)


@fact_in("bytes")
def latent_cache_bytes_read(case: Case) -> Term:
    """The same where attention keeps latents."""
    return cache_read(case, "latent")
