"""The Hub: files of a model at one commit, from its cache or over the network."""

import difflib
import fnmatch
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2
from huggingface_hub import (
    HfApi,
    constants,
    get_session,
    hf_hub_download,
    snapshot_download,
    try_to_load_from_cache,
)

from model.hub_errors import HubError, HubUnreachableError, in_words
from model.presets import PRESETS

__all__ = [
    "HubError",
    "HubUnreachableError",
    "Listing",
    "cached",
    "download",
    "fetch",
    "listing",
    "repo_of",
]

_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_REVISION = re.compile(r"\w[\w./-]*")
_QUERY = re.compile(r"(https?://[^\s?]+)\?\S*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a model holds at one commit."""

    repo: str
    commit: str
    """Forty hexadecimal digits."""
    sizes: Mapping[str, int]
    """Bytes of every file by its name."""
    login: bool = True
    """Whether the Hub is asked with the login of this machine."""


def repo_of(source: str) -> str:
    """The Hub id that `source` is; LookupError where it cannot be one."""
    if not _HUB_ID.fullmatch(source):
        near = difflib.get_close_matches(source, PRESETS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise LookupError(
            f"{source!r} is no preset ({', '.join(PRESETS)}), no folder and no Hub id "
            f"org/name.{hint}"
        )
    return source


def fetch(repo: str, files: Iterable[str], revision: str | None = None) -> Path:
    """The folder with those files of a model, which the cache holds or the Hub sends.

    `files` are names or patterns as `*.json`; the folder's name is the commit. Without a network
    it is what the cache has of that revision, if that is complete.
    """
    patterns = list(files)
    asked = f"{_named(repo, revision)} ({', '.join(patterns)})"
    _take_care()
    with in_words(asked):
        folder = Path(
            snapshot_download(
                repo,
                revision=revision,
                allow_patterns=patterns,
                etag_timeout=constants.HF_HUB_ETAG_TIMEOUT,
            )
        )
    names = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    if not any(fnmatch.filter(names, pattern) for pattern in patterns):
        raise HubError(f"{asked}: the model has no such file at {folder.name}.")
    return folder


def listing(repo: str, revision: str | None = None, *, login: bool = True) -> Listing:
    """The files and the full commit of a revision, asked of the Hub."""
    asked = _named(repo, revision)
    _take_care()
    with in_words(asked):
        info = HfApi(token=None if login else False).model_info(
            repo,
            revision=revision,
            files_metadata=True,
            timeout=constants.HF_HUB_ETAG_TIMEOUT,
        )
    sizes = {file.rfilename: file.size for file in info.siblings or ()}
    if not info.sha or None in sizes.values():
        raise HubError(f"{asked}: the Hub did not say its commit and the sizes of its files.")
    known = {name: size for name, size in sizes.items() if size is not None}
    return Listing(repo=repo, commit=info.sha, sizes=known, login=login)


def cached(repo: str, name: str, commit: str) -> Path | None:
    """Where the cache holds a file, if it does."""
    path = try_to_load_from_cache(repo, name, revision=commit)
    return Path(path) if isinstance(path, str) else None


def download(repo: str, name: str, commit: str, *, login: bool = True) -> Path:
    """One whole file, through the cache."""
    _take_care()
    with in_words(f"{name!r} of {_named(repo, commit)}"):
        return Path(
            hf_hub_download(
                repo,
                name,
                revision=commit,
                etag_timeout=constants.HF_HUB_ETAG_TIMEOUT,
                token=None if login else False,
            )
        )


def _named(repo: str, revision: str | None) -> str:
    repo_of(repo)
    if revision is None:
        return repr(repo)
    if not _REVISION.fullmatch(revision) or ".." in revision:
        raise ValueError(f"{revision!r} is no revision: name a branch, a tag or a commit.")
    return f"{repo!r} at {revision!r}"


def _take_care() -> None:
    """No request of the library waits for ever, and none of its warnings shows a signed address."""
    hooks = get_session().event_hooks["request"]
    if _bound_wait not in hooks:
        hooks.append(_bound_wait)
    logger = logging.getLogger("huggingface_hub.file_download")
    if _hide_queries not in logger.filters:
        logger.addFilter(_hide_queries)


def _bound_wait(request: httpx2.Request) -> None:
    limits = request.extensions.get("timeout", {})
    request.extensions["timeout"] = {
        part: limits.get(part) or constants.HF_HUB_DOWNLOAD_TIMEOUT
        for part in ("connect", "read", "write", "pool")
    }


def _hide_queries(record: logging.LogRecord) -> bool:
    record.msg, record.args = _QUERY.sub(r"\1", record.getMessage()), None
    return True
