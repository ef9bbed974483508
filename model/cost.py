"""What a model costs: the one owner of every size formula, and the public face of `cost_*.py`."""

from model import cost_memory, cost_residuals, cost_shape, cost_weights
from model.cost_capture import (
    capture_bytes,
    capture_bytes_by_tap,
    element_bytes,
    fires,
    tap_shape,
)
from model.cost_facts import FACTS, Fact, fact
from model.cost_flops import flops
from model.cost_kept import BYTES, Kept, kept, total_kept_bytes
from model.cost_parameters import (
    Parameters,
    layer_total,
    module_parameters,
    parameter_sizes,
    parameters,
    weight_bytes,
    weight_bytes_by_dtype,
)
from model.cost_polynomial import coefficients, evaluate
from model.cost_sizes import Case, Phase
from model.cost_terms import Term, Value
from model.cost_traffic import Traffic, traffic

FACT_MODULES = (cost_memory, cost_residuals, cost_shape, cost_weights)
"""Importing them registers their facts."""

__all__ = [
    "BYTES",
    "FACTS",
    "Case",
    "Fact",
    "Kept",
    "Parameters",
    "Phase",
    "Term",
    "Traffic",
    "Value",
    "capture_bytes",
    "capture_bytes_by_tap",
    "coefficients",
    "element_bytes",
    "evaluate",
    "fact",
    "fires",
    "flops",
    "kept",
    "layer_total",
    "module_parameters",
    "parameter_sizes",
    "parameters",
    "tap_shape",
    "total_kept_bytes",
    "traffic",
    "weight_bytes",
    "weight_bytes_by_dtype",
]
