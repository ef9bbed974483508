"""A small model that the app does not offer by itself."""

import os

os.environ["KIMISCOPE_SOURCES"] = "tiny-k3"
