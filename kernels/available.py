"""Whether kernels can run for a model, told where Triton may be missing."""

from importlib.util import find_spec


def why_not(device: str, dtype: str) -> str:
    """What is missing, as part of a sentence; empty where kernels run.

    `device` is a kind, as in "cuda", which is what torch calls a GPU of AMD too.
    """
    if dtype == "float64":
        return "kernels sum in float32, and the model is float64"
    if find_spec("triton") is None:
        return "Triton is not installed"
    if device == "cuda":
        return ""
    if device != "cpu":
        return f"kernels are for a GPU, and the model is on {device}"
    # only here, since it takes a moment that others need not wait
    from triton import knobs

    if knobs.runtime.interpret:
        return ""
    return (
        "the model is on a CPU, where kernels run only in Triton's interpreter, which "
        "TRITON_INTERPRET=1 in the environment turns on"
    )
