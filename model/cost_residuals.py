"""Facts about attention residuals: sources, reads, seals."""

from model.cost_facts import fact_in
from model.cost_sizes import Case
from model.cost_terms import Term, named


@fact_in("layers")
def residual_block(case: Case) -> Term:
    """Layers whose outputs are summed into one sealed block."""
    return case.residual_block()


@fact_in("seals")
def residual_seals(case: Case) -> Term:
    """Blocks put into the bank during one pass, the embedding's among them."""
    layers = named("layers", case.config.num_hidden_layers)
    return (layers - 1) // case.residual_block() + 1


@fact_in("layers")
def residual_last_block(case: Case) -> Term:
    """Layers after the last seal, whose sum is read without ever being sealed."""
    layers, seals = named("layers", case.config.num_hidden_layers), residual_seals(case)
    return layers - case.residual_block() * (seals.named("seals") - 1)


@fact_in("reads")
def residual_reads_before_mixer(case: Case) -> Term:
    """Mixes before a mixer; the first layer has nothing to mix."""
    case.residual_block()
    return named("layers", case.config.num_hidden_layers) - 1


@fact_in("reads")
def residual_reads_before_ffn(case: Case) -> Term:
    """Mixes before a feed-forward."""
    case.residual_block()
    return named("layers", case.config.num_hidden_layers)


@fact_in("reads")
def residual_reads(case: Case) -> Term:
    """All mixes of one token on its way to the logits."""
    before_mixer = residual_reads_before_mixer(case).named("before mixers")
    return before_mixer + residual_reads_before_ffn(case).named("before feed-forwards") + 1


@fact_in("sources")
def residual_sources_before_mixer(case: Case) -> Term:
    """Sources that the mix before the mixer of `layer` reads; 1 means that there is no mix."""
    layer, block = case.this_layer(), case.residual_block()
    if layer.value == 0:
        return named("embedding", 1)
    return (layer - 1) // block + 2


@fact_in("sources")
def residual_sources_before_ffn(case: Case) -> Term:
    """Sources that the mix before the feed-forward of `layer` reads."""
    layer, block = case.this_layer(), case.residual_block()
    return layer // block + 2


@fact_in("sources")
def residual_sources_out(case: Case) -> Term:
    """Sources that the last mix, before the final norm, reads."""
    return residual_seals(case).named("seals") + 1


@fact_in("values")
def residual_bank_values(case: Case) -> Term:
    """Values of a full bank for one token; dropped when the call ends."""
    return residual_seals(case).named("seals") * case.size("d_model")
