"""The operator of these tests lets one more model run."""

import os

os.environ["KIMISCOPE_SOURCES"] = "tiny-k3"
