"""A Hub of our own for every test, with an empty cache and nobody signed in."""

import pytest
from huggingface_hub import close_session, constants

from tests.hub.server import Hub


@pytest.fixture
def hub(tmp_path, monkeypatch):
    # the library reads its environment when it is imported, which may have been long ago
    with Hub().running() as server:
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 5)
        monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 5)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        yield server
        close_session()


@pytest.fixture
def impatient(monkeypatch):
    """No pause before anything is tried again."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
