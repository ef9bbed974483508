"""Find a Chromium for the browser tests, and install Debian's where none is found."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Path of a browser: `KIMISCOPE_BROWSER`, or the first known name on the path."""
    if named := os.environ.get("KIMISCOPE_BROWSER"):
        return named
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def main() -> int:
    if find():
        return 0
    if not shutil.which("apt-get"):
        sys.stderr.write("No Chromium found. Install one, or name it in KIMISCOPE_BROWSER.\n")
        return 1
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", NAMES[0]]):
        subprocess.run([*sudo, "apt-get", *command], check=True, env=environment)
    return 0 if find() else 1


if __name__ == "__main__":
    sys.exit(main())
