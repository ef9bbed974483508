"""What to say when the Hub does not give what was asked: what was asked, what came, what to do."""

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import constants, errors

REFUSED = (401, 403)
TOO_MANY = 429
LONGEST_QUOTE = 200
"""Characters of a server's own words that are passed on."""
_NO_HUB = (AssertionError, TypeError, KeyError, AttributeError)
"""How the library stumbles over an answer that is none of the Hub's."""
_SIGN_IN = "Sign in with `hf auth login` or set HF_TOKEN."


class HubError(LookupError):
    """The Hub did not give what was asked."""


class HubUnreachableError(HubError):
    """Nothing was learned from the Hub: it may have the file all the same."""


@contextmanager
def in_words(asked: str) -> Iterator[None]:
    """Every way in which a call of the library can fail, as a `HubError` about `asked`.

    The library's own error is not chained: its text may hold a signed address.
    """
    try:
        yield
    except HubError:
        raise
    except (
        httpx2.HTTPError,
        httpx2.InvalidURL,
        errors.EntryNotFoundError,
        errors.RevisionResolutionError,
        errors.XetDownloadError,
        OSError,
        ValueError,
        *_NO_HUB,
    ) as error:
        said = error_for(error, asked)
    else:
        return
    raise said from None


def host() -> str:
    """Where the Hub is looked for, without any credentials of the address."""
    parts = urlsplit(constants.ENDPOINT)
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{parts.hostname or '?'}{port}"


def error_for(error: BaseException, asked: str) -> HubError:
    """The sentence for the first error of the chain that says why."""
    for link in _chain(error):
        for kind, sentence in _SENTENCES:
            if isinstance(link, kind):
                return sentence(link, asked)
    return HubError(f"{asked} did not come from {host()}: {quoted(str(error))}")


def status_error(status: int, asked: str, said: str = "") -> HubError:
    """The sentence for a status that means no; `said` is what the server adds."""
    because = f" ({quoted(said)})" if said else ""
    if status in REFUSED:
        return HubError(
            f"{asked}: {host()} refused it with {status}{because}. It is private or gated, or the "
            f"login lacks the right to read it. {_SIGN_IN}"
        )
    if status == TOO_MANY:
        return HubError(f"{asked}: {host()} asks for a pause ({status}){because}. Try again later.")
    if status >= 500:
        return HubUnreachableError(
            f"{asked}: {host()} failed with {status}{because}. Try again later."
        )
    return HubError(
        f"{asked}: {host()} answered {status}{because}. Check the name and HF_ENDPOINT."
    )


def quoted(text: str) -> str:
    """A server's words on one line, without control characters and addresses' queries."""
    line = " ".join(text.split())
    words = [word.partition("?")[0] if "://" in word else word for word in line.split(" ")]
    shown = "".join(c for c in " ".join(words) if c.isprintable())
    return shown if len(shown) <= LONGEST_QUOTE else f"{shown[:LONGEST_QUOTE]}…"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error's causes first, as the library wraps what it knows in what it guesses."""
    links = []
    while error is not None and error not in links:
        links.append(error)
        error = error.__cause__
    yield from reversed(links)


def _offline(_: BaseException, asked: str) -> HubError:
    return HubUnreachableError(
        f"{asked} is not in the cache {constants.HF_HUB_CACHE!r}, and HF_HUB_OFFLINE forbids to "
        "ask for it. Unset that, or name a folder."
    )


def _gated(_: BaseException, asked: str) -> HubError:
    return HubError(
        f"{asked} is gated: {host()} gives it only to who was granted access. Ask for it on the "
        f"model's page. {_SIGN_IN}"
    )


def _no_repo(_: BaseException, asked: str) -> HubError:
    return HubError(
        f"{asked}: {host()} knows no such model, or does not show it to this login. Check the "
        f"name. {_SIGN_IN}"
    )


def _no_revision(_: BaseException, asked: str) -> HubError:
    return HubError(
        f"{asked}: the model has no such revision. Name a branch, a tag or a commit, or none for "
        "the newest."
    )


def _no_file(_: BaseException, asked: str) -> HubError:
    return HubError(f"{asked}: the model has no such file at this revision.")


def _status(error: BaseException, asked: str) -> HubError:
    assert isinstance(error, errors.HfHubHTTPError)
    return status_error(error.response.status_code, asked, error.server_message or "")


def _no_hub(_: BaseException, asked: str) -> HubError:
    return HubError(
        f"{asked}: {host()} does not answer as a Hub does. Check HF_ENDPOINT and any proxy."
    )


def _too_slow(_: BaseException, asked: str) -> HubError:
    return HubUnreachableError(
        f"{asked}: {host()} sent nothing for {constants.HF_HUB_DOWNLOAD_TIMEOUT} s. Try again, or "
        "wait longer with HF_HUB_DOWNLOAD_TIMEOUT and HF_HUB_ETAG_TIMEOUT."
    )


def _no_connection(error: BaseException, asked: str) -> HubError:
    unknown = any(isinstance(link, socket.gaierror) for link in _contexts(error))
    what = "no machine of that name was found" if unknown else "no connection could be made"
    return HubUnreachableError(
        f"{asked}: {host()} was not reached, {what}. Check the network and HF_ENDPOINT."
    )


def _contexts(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _cut_off(_: BaseException, asked: str) -> HubError:
    return HubUnreachableError(
        f"{asked}: the connection to {host()} broke off before everything came. What came is not "
        "used; try again."
    )


def _bad_address(_: BaseException, asked: str) -> HubError:
    return HubError(
        f"{asked}: HF_ENDPOINT is no address that can be asked; it begins with http:// or https://."
    )


def _not_cached(_: BaseException, asked: str) -> HubError:
    return HubUnreachableError(
        f"{asked} is not in the cache {constants.HF_HUB_CACHE!r}, and the Hub was not asked."
    )


def _system(error: BaseException, asked: str) -> HubError:
    assert isinstance(error, OSError)
    if error.errno == errno.ENOSPC:
        return HubError(f"{asked}: no space is left in {constants.HF_HUB_CACHE!r}. Free some.")
    if error.errno is None and "Consistency check" in str(error):
        return HubError(
            f"{asked}: what came from {host()} has another length than announced, so it was cut "
            "off or changed on the way. Nothing of it is kept; try again."
        )
    return HubError(f"{asked} could not be kept: {quoted(str(error))}")


_SENTENCES: tuple[tuple[type[BaseException], Callable[[BaseException, str], HubError]], ...] = (
    (errors.OfflineModeIsEnabled, _offline),
    (errors.GatedRepoError, _gated),
    (errors.RepositoryNotFoundError, _no_repo),
    (errors.RevisionNotFoundError, _no_revision),
    (errors.RemoteEntryNotFoundError, _no_file),
    (errors.HfHubHTTPError, _status),
    (errors.FileMetadataError, _no_hub),
    (JSONDecodeError, _no_hub),
    (UnicodeDecodeError, _no_hub),
    *((kind, _no_hub) for kind in _NO_HUB),
    (httpx2.TimeoutException, _too_slow),
    (httpx2.ConnectError, _no_connection),
    (httpx2.ProxyError, _no_connection),
    (httpx2.UnsupportedProtocol, _bad_address),
    (httpx2.InvalidURL, _bad_address),
    (httpx2.TransportError, _cut_off),
    (errors.LocalEntryNotFoundError, _not_cached),
    (OSError, _system),
)
"""The first kind that fits decides; causes are tried before what wraps them."""
