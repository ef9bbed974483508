"""Bounds of runs and of looks at checkpoints, which the model keeps and the app tells of."""

MAX_PROMPT = 2_048
"""Tokens of a prompt, unless a run is told otherwise."""
RUN_BYTES = 256 * 1024**2
"""What the recording of one run may take, unless it is told otherwise."""
LOOK_BYTES = 96 * 1024**2
"""What a look at single tensors of a checkpoint may read or transfer, unless it is told otherwise:
room for the index of the largest checkpoint, a few headers, and its small tensors."""
HEADER_BYTES = 256 * 1024**2
"""What may be transferred to read every header of a checkpoint: twice what the largest has."""
