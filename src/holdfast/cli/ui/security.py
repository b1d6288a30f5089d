"""Who may see the page and press its buttons, and what a browser may do with it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

from holdfast.taskexecutor.token import same

COOKIE = "holdfast-session"
CSRF = "csrf"
_LONGEST_SESSION = 12 * 3600
_WRONG_TOKEN_SECONDS = 0.5
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN_PATHS = ("/login", "/static/")
# A notebook shows the page inline, and the page its drawings.
FRAME_ANCESTORS = "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*"
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "frame-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        FRAME_ANCESTORS,
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    # Without one, the browser wouldn't say either which site a form comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    return host in _LOOPBACK


@web.middleware
async def restrict(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tells the browser what the page may do."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        _add_headers(request, error)
        raise
    _add_headers(request, response)
    return response


def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    # Those of a stream are on their way already.
    if response.prepared:
        return
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    if not request.path.startswith("/static/"):
        response.headers.setdefault("Cache-Control", "no-store")


class Security:
    """Lets requests through, or not.

    Args:
        host: the address that is served on.
        token: what has to be known to see anything; None on loopback, where that is open.
        is_read_only: whether nothing may be changed by the page.
    """

    def __init__(self, host: str, token: str | None, *, is_read_only: bool = False) -> None:
        self.is_read_only = is_read_only
        self._token = token
        self._hosts = {*_LOOPBACK, host.lower()}
        self._is_local = is_loopback(host)
        self._secret = secrets.token_bytes(32)
        self._sessions: set[str] = set()

    def csrf(self, request: web.Request) -> str:
        """What forms of the page carry, and no other site knows."""
        session = request.cookies.get(COOKIE, "")
        return hmac.new(self._secret, session.encode(), hashlib.sha256).hexdigest()

    async def log_in(self, given: str) -> str | None:
        """A session for whoever knows the token; None for others, after a moment.

        Args:
            given: the token, as it was typed in.
        """
        if self._token is None or not same(given, self._token):
            await asyncio.sleep(_WRONG_TOKEN_SECONDS)
            return None
        session = secrets.token_urlsafe(32)
        self._sessions.add(session)
        return session

    def remember(self, response: web.StreamResponse, session: str) -> None:
        """Has the browser send the session with each request."""
        response.set_cookie(
            COOKIE,
            session,
            max_age=_LONGEST_SESSION,
            httponly=True,
            samesite="Strict",
            path="/",
        )

    def is_known(self, request: web.Request) -> bool:
        """Whether whoever asks may see the page."""
        return self._token is None or request.cookies.get(COOKIE, "") in self._sessions

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answers nobody who may not ask."""
        if self._is_local and _host_of(request.host) not in self._hosts:
            # Another site's name that leads to this machine.
            raise web.HTTPForbidden(text="The page isn't served under this name.")
        if not self.is_known(request) and not request.path.startswith(_OPEN_PATHS):
            return await self._introduced(request)
        if request.method not in ("GET", "HEAD") and not request.path.startswith("/login"):
            await self._check_change(request)
        return await handler(request)

    async def _introduced(self, request: web.Request) -> web.StreamResponse:
        """A link with the token leads in; without it, the way is by the log-in."""
        given = request.query.get("token")
        session = None if given is None else await self.log_in(given)
        if session is None:
            raise web.HTTPSeeOther("/login")
        response = web.HTTPSeeOther(request.path)
        self.remember(response, session)
        return response

    async def _check_change(self, request: web.Request) -> None:
        if self.is_read_only:
            raise web.HTTPForbidden(text="The page is read-only.")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            raise web.HTTPForbidden(text="The request comes from another site.")
        form = await request.post()
        given = form.get(CSRF, "")
        if not isinstance(given, str) or not hmac.compare_digest(
            given.encode("utf-8", "surrogateescape"), self.csrf(request).encode()
        ):
            raise web.HTTPForbidden(text="The form is of an earlier start of the page: reload it.")


def _host_of(host: str) -> str:
    return (urlsplit(f"//{host}").hostname or "").lower()
