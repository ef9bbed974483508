"""Parts of a file on the Hub, by HTTP ranges: never more than was asked for."""

import time
from collections.abc import Callable, Mapping
from urllib.parse import urljoin, urlsplit

import httpx2
from huggingface_hub import HfFileMetadata, constants, get_hf_file_metadata, get_session, hf_hub_url
from huggingface_hub.utils import build_hf_headers

from model.hub_errors import HubError, HubUnreachableError, error_for, in_words, status_error

SLOWEST = 16 * 1024
"""Bytes a second below which a server is given up, after a first grace."""
TRIES = 3
"""Times in a row that little or nothing comes before a part is given up."""
WORTH_A_TRY = 64 * 1024
"""Bytes after whose coming the tries are counted anew."""
MOST_REDIRECTS = 5
_PAUSE = 0.5
"""Seconds before a part is asked for again."""


class RemoteFile:
    """One file of a model at a commit, read in parts; safe to share between threads."""

    def __init__(
        self,
        repo: str,
        name: str,
        commit: str,
        size: int,
        came: Callable[[int], None] = lambda count: None,
        *,
        login: bool = True,
    ) -> None:
        """`came` hears of every piece that arrives, by its bytes."""
        self.name = name
        self.size = size
        self._came = came
        self._token = None if login else False
        self._url = hf_hub_url(repo, name, revision=commit)
        self._asked = f"{name!r} of {repo!r} at {commit!r}"
        self._commit = commit
        self._place: str | None = None

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`, taken up again where a connection breaks."""
        if not 0 <= start <= end <= self.size:
            raise ValueError(f"{self._asked} has no bytes {start} to {end}; it has {self.size}.")
        got = bytearray()
        tries = 0
        while len(got) < end - start:
            before = len(got)
            try:
                self._ask(start + before, end, got)
            except (httpx2.TransportError, HubUnreachableError) as error:
                tries = 1 if len(got) - before >= WORTH_A_TRY else tries + 1
                if tries == TRIES:
                    raise self._given_up(error, len(got), end - start) from None
                time.sleep(_PAUSE)
        return bytes(got)

    def _given_up(self, error: BaseException, came: int, asked: int) -> HubError:
        said = error if isinstance(error, HubError) else error_for(error, self._asked)
        return HubUnreachableError(f"{said.args[0]} ({came:,} of {asked:,} bytes came.)")

    def _ask(self, start: int, end: int, into: bytearray) -> None:
        """One request. What comes is added to `into` as it comes, and counted."""
        place = self._place or self._look_up()
        for _ in range(MOST_REDIRECTS):
            with get_session().stream(
                "GET",
                place,
                headers=self._headers(place, start, end),
                timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
                follow_redirects=False,
            ) as response:
                if response.has_redirect_location:
                    place = urljoin(place, response.headers["Location"])
                    continue
                if response.status_code in (401, 403) and place != self._url:
                    # a signed address that has run out
                    self._place = None
                    raise HubUnreachableError(f"{self._asked}: its signed address was refused.")
                self._require_part(response, start, end)
                self._take(response, end - start, into)
                return
        raise HubError(f"{self._asked}: more than {MOST_REDIRECTS} redirects lead nowhere.")

    def _look_up(self) -> str:
        """Where the bytes are, which may be another machine for as long as a signature holds."""
        with in_words(self._asked):
            found = get_hf_file_metadata(
                self._url, timeout=constants.HF_HUB_ETAG_TIMEOUT, token=self._token
            )
        self._require_same(found)
        self._place = urljoin(self._url, found.location)
        return self._place

    def _require_same(self, found: HfFileMetadata) -> None:
        if found.commit_hash not in (None, self._commit):
            raise HubError(f"{self._asked}: the Hub gives it at {found.commit_hash!r}.")
        if found.size not in (None, self.size):
            raise HubError(
                f"{self._asked}: the Hub lists it with {self.size:,} bytes and gives {found.size:,}"
                ". Open the model again."
            )

    def _headers(self, place: str, start: int, end: int) -> Mapping[str, str]:
        # a login goes to the Hub and to nobody it sends us to
        own = _origin(place) == _origin(self._url)
        return {
            **build_hf_headers(token=self._token if own else False),
            "Range": f"bytes={start}-{end - 1}",
            "Accept-Encoding": "identity",
        }

    def _require_part(self, response: httpx2.Response, start: int, end: int) -> None:
        """Only the asked part, before a byte of it is read."""
        status, headers = response.status_code, response.headers
        if status == 200:
            raise HubError(
                f"{self._asked}: the server ignores ranges and would send all {self.size:,} bytes "
                f"for {end - start:,}. Download the file, or use another HF_ENDPOINT."
            )
        if status != 206:
            raise status_error(status, self._asked)
        wanted = f"bytes {start}-{end - 1}/{self.size}"
        given = headers.get("Content-Range", "")
        if given != wanted or headers.get("Content-Encoding", "identity") != "identity":
            raise HubError(f"{self._asked}: asked for {wanted!r}, the server gives {given[:60]!r}.")

    def _take(self, response: httpx2.Response, length: int, into: bytearray) -> None:
        began, before = time.monotonic(), len(into)
        grace = constants.HF_HUB_DOWNLOAD_TIMEOUT
        for chunk in response.iter_raw():
            self._came(len(chunk))
            into += chunk
            came, passed = len(into) - before, time.monotonic() - began
            if came > length:
                raise HubError(f"{self._asked}: the server sends more than was asked for.")
            if came < length and passed > grace + came / SLOWEST:
                raise HubError(
                    f"{self._asked}: only {came:,} of {length:,} bytes came in {passed:.0f} s. Try "
                    "again with a faster connection."
                )
        if len(into) - before < length:
            raise httpx2.RemoteProtocolError("the body ended early")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port
