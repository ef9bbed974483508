"""Bounds of a run that the model keeps and the app tells of."""

MAX_PROMPT = 2_048
"""Tokens of a prompt, unless a run is told otherwise."""
RUN_BYTES = 256 * 1024**2
"""What the recording of one run may take, unless it is told otherwise."""
