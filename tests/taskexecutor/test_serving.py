"""A real task executor process: who may call it, what it serves, and that nothing else gets out."""

from __future__ import annotations

import http.client
import json
import os
import string
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import (
    DuplicateRegistrationError,
    HoldfastError,
    MalformedRequestError,
    StorageError,
    TaskExecutorUnreachableError,
    UnauthorizedError,
    UnknownApplicationError,
    UnknownJobError,
    UnknownPartitionError,
    VersionMismatchError,
)
from holdfast.ids import ApplicationID, JobID, application_of_start
from holdfast.version import __version__
from tests.taskexecutor.callers import JOB, Caller, output_of
from tests.taskexecutor.protocol import (
    CALLS,
    CONTROL_PREFIX,
    REQUEST_LIMIT,
    RemoteTaskExecutor,
    Timeouts,
    read_key,
)

SECRET = b"the bytes that no other machine may see"
ONE, TWO, THREE, FIVE = map(output_of, "1235")


class Connection(http.client.HTTPConnection):
    """Sends paths that no decent client would."""

    def _validate_path(self, url: str) -> None:
        return None

    def _encode_request(self, request: str) -> bytes:
        return request.encode("latin-1", "replace")


Answer = tuple[int, dict[str, str], bytes]
Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def ask(served: Any) -> Ask:
    """Asks the process for paths, as they are."""
    host, _, port = served.address.rpartition(":")

    def ask(path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items() if value}
        connection = Connection(host, int(port), timeout=20)
        try:
            is_chunked = "Transfer-Encoding" in named
            connection.request(method, path, body, named, encode_chunked=is_chunked)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        finally:
            connection.close()

    return ask


class Kept:
    """An application, one of its partitions, and where that is."""

    def __init__(self, served: Any) -> None:
        self.app = Caller(served.gateway()).connect(lease_seconds=3600)
        self.app.keep(ONE)
        (report,) = self.app.gateway.report(self.app.application)
        self.parts, self.place = report.partitions, Path(report.directory)
        self.base, self.output = self.app.base, f"{self.app.base}/{ONE}"
        self.url = f"{self.output}/{self.parts[0].file}"
        self.bytes = (self.place / self.parts[0].file).read_bytes()

    def end(self) -> None:
        self.app.gateway.unregister_application(self.app.application)


@pytest.fixture(scope="module")
def kept(served: Any) -> Kept:
    """What no test changes."""
    (served.directory.parent / "secret").write_bytes(SECRET)
    return Kept(served)


@pytest.fixture
def mine(served: Any) -> Iterator[Kept]:
    """What a test may change."""
    mine = Kept(served)
    yield mine
    mine.end()


@pytest.fixture
def control(ask: Ask, served: Any) -> Callable[..., tuple[int, str]]:
    """Makes a call: its status, and the error."""

    def call(name: str, asked: Any, method: str = "POST", **headers: str) -> tuple[int, str]:
        body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        given = {"Authorization": f"Bearer {served.token}", **headers}
        status, _, answer = ask(f"{CONTROL_PREFIX}{name}", method, body, **given)
        assert served.token not in answer.decode() and len(answer) < 1500
        return status, json.loads(answer)["error"]

    return call


def exception(answer: bytes) -> str:
    return str(json.loads(answer)["RemoteException"]["exception"])


# -- reading


def test_a_partition_is_served_as_hadoop_asks_for_it(kept: Kept, ask: Ask) -> None:
    status, headers, body = ask(f"{kept.url}?op=OPEN&user.name=spark&buffersize=4096")
    assert (status, body) == (307, b"")
    onward = "/" + headers["location"].split("/", 3)[3]
    for path, expected in (
        (onward, kept.bytes),
        (f"{onward}&offset=7", kept.bytes[7:]),
        (f"{kept.url}?op=open&offset=7&length=11", kept.bytes[7:18]),
        (f"{kept.url}?op=OPEN&OFFSET=7&length=0", b""),
        (f"{kept.url}?op=OPEN&offset={len(kept.bytes)}", b""),
        (f"{kept.url}?op=OPEN&offset=1&length={10**17}", kept.bytes[1:]),
    ):
        status, headers, body = ask(path)
        assert (status, body, headers["content-length"]) == (200, expected, str(len(expected)))
        assert not {"content-type", "server"} & headers.keys()


def test_partitions_are_only_read(kept: Kept, ask: Ask) -> None:
    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "MOVE"):
        for operation in ("OPEN", "CREATE", "DELETE", "RENAME", "APPEND", "CONCAT"):
            path = f"{kept.url}?op={operation}&offset=0&destination=/x"
            assert ask(path, method)[0] == 405, path
    for query in (
        *("op=CREATE", "op=DELETE", "op=RENAME&destination=/x", "op=MKDIRS", "op=SETPERMISSION"),
        *("op=GETDELEGATIONTOKEN", "op=", "", "op=OPEN%00", "&".join(["a=b"] * 99)),
        *("op=OPEN&offset=-1", "op=OPEN&offset=x", "op=OPEN&offset=", "op=OPEN&offset=1e3"),
        *("op=OPEN&offset=99999999", f"op=OPEN&offset={10**30}", "op=OPEN&offset=0&length=-5"),
        *("op=OPEN&offset=0&length=x", "op=OPEN&offset=0x1", "op=OPEN&offset=%D9%A1"),
    ):
        status, _, body = ask(f"{kept.url}?{query}")
        assert (status, exception(body)) == (400, "IllegalArgumentException"), query
    assert (kept.place / kept.parts[0].file).read_bytes() == kept.bytes


def test_a_read_key_opens_its_own_application_alone(
    kept: Kept, mine: Kept, ask: Ask, served: Any
) -> None:
    own, application = kept.base.split("/")[3], mine.app.application
    key = read_key(served.token, application)
    for wrong in ("0" * 64, own[::-1], key):
        for path in (kept.url, kept.base):
            status, _, body = ask(f"{path}?op=OPEN&offset=0".replace(own, wrong))
            assert (status, exception(body)) == (403, "AccessControlException")
    # Without a key it is not said which applications there are.
    unknown = f"application-{ApplicationID.random().hex}/datasets?op=LISTSTATUS"
    assert ask(f"/webhdfs/v1/{'0' * 64}/{unknown}")[0] == 403
    mine.end()
    path = f"/webhdfs/v1/{key}/application-{application.hex}/datasets?op=LISTSTATUS"
    status, _, body = ask(path)
    assert (status, exception(body)) == (404, "FileNotFoundException")


ESCAPES = [
    *("..", "%2e%2e", "%2E.", "%252e%252e", "..%2f..", "..%5c..", "..%c0%af..", "....//"),
    *(".%00./..", "%00", "x%00.parquet", "//etc/passwd", "%2fetc%2fpasswd", "/etc/passwd"),
    *("C:%5cwindows", "~root", "_manifest.json", "_output.json", ".", "", "lock", "a" * 300),
    "../" * 40 + "etc/passwd",
]


def test_no_path_leads_out(kept: Kept, ask: Ask, served: Any) -> None:
    secret = served.directory.parent / "secret"
    starts = (kept.base, kept.output, kept.url, kept.base.rpartition("/")[0], "/webhdfs/v1", "")
    for escape in ESCAPES:
        ups = "/".join([escape] * 6)
        for start in (*starts, CONTROL_PREFIX):
            for path in (
                f"{start}/{escape}",
                f"{start}/{ups}/secret",
                f"{start}/{ups}{secret}",
                f"{start}/{escape}{quote(str(secret), safe='')}",
            ):
                status, _, body = ask(f"{path}?op=OPEN&offset=0")
                assert status in (400, 401, 403, 404), path
                assert SECRET not in body and b"root:" not in body
    for target in (f"http://evil{kept.url}?op=OPEN&offset=0", "*", "x", "/" + "a" * 100_000):
        status, _, body = ask(target)
        assert status in (400, 404) and kept.bytes not in body


PIECES = st.one_of(
    st.sampled_from([*ESCAPES, "application-", "datasets", "staging", "part-00000-x-c000"]),
    st.text(alphabet=string.printable.replace(" ", ""), max_size=12),
    st.binary(max_size=6).map(lambda raw: "".join(f"%{byte:02x}" for byte in raw)),
)


@given(pieces=st.lists(PIECES, max_size=6), start=st.integers(0, 4), query=PIECES)
def test_random_paths_give_nothing_away(
    kept: Kept, ask: Ask, pieces: list[str], start: int, query: str
) -> None:
    starts = (kept.base, kept.output, kept.url, "/webhdfs/v1", "")
    path = "/".join([starts[start], *pieces])
    target = "".join(each for each in f"{path}?op=OPEN&offset=0&{query}" if each.isprintable())
    status, _, body = ask(target.replace(" ", "%20") or "/")
    assert status in (200, 400, 401, 403, 404)
    # The one thing that is there to be read may be read, and nothing else.
    assert status != 200 or body == kept.bytes
    assert SECRET not in body and b"root:" not in body


def test_links_are_not_followed(mine: Kept, ask: Ask, served: Any) -> None:
    home, file = served.directory.parent, mine.place / mine.parts[0].file
    (home / "secret").write_bytes(SECRET)
    assert ask(f"{mine.url}?op=OPEN&offset=0")[0] == 200
    file.rename(home / "moved")
    for target in (home / "moved", home / "secret"):
        file.symlink_to(target)
        assert ask(f"{mine.url}?op=OPEN&offset=0")[0] == 404
        file.unlink()
    mine.place.rename(home / "moved-output")
    mine.place.symlink_to(home / "moved-output")
    assert ask(f"{mine.output}/{mine.parts[1].file}?op=OPEN&offset=0")[0] == 404
    (mine.place.parent / "x").symlink_to(home)
    assert ask(f"{mine.base}/x/secret?op=OPEN&offset=0")[0] == 404
    mine.place.unlink()
    mine.end()
    assert (home / "secret").read_bytes() == SECRET and (home / "moved-output").is_dir()


def test_a_partition_that_was_written_to_is_not_served(mine: Kept, ask: Ask) -> None:
    os.utime(mine.place / mine.parts[0].file, ns=(1, 1))
    os.truncate(mine.place / mine.parts[1].file, 10)
    for part in mine.parts:
        status, _, body = ask(f"{mine.output}/{part.file}?op=OPEN&offset=0")
        assert (status, exception(body)) == (404, "FileNotFoundException")
    assert mine.app.damage(ONE) is not None


# -- calling


def test_errors_come_back_as_what_they_are(mine: Kept) -> None:
    app, gateway = mine.app, mine.app.gateway
    with pytest.raises(DuplicateRegistrationError) as duplicate:
        gateway.register_application(app.application, 9, __version__)
    assert duplicate.value.what == f"application {app.application.hex}"
    with pytest.raises(VersionMismatchError) as mismatch:
        gateway.register_application(ApplicationID.random(), 9, "0.0.0")
    assert (mismatch.value.found, mismatch.value.expected) == ("0.0.0", __version__)
    app.open(THREE)
    infinity = float("inf")
    refused: list[tuple[type[HoldfastError], Callable[[], object]]] = [
        (UnknownApplicationError, lambda: gateway.heartbeat(ApplicationID.random(), {})),
        (UnknownJobError, lambda: gateway.open_output(app.application, JobID.random(), TWO)),
        (DuplicateRegistrationError, lambda: gateway.register_job(app.application, app.job_id)),
        (UnknownPartitionError, lambda: app.finish(THREE, [1], 2)),
        (MalformedRequestError, lambda: app.finish(THREE, [1, 1], 2)),
        (MalformedRequestError, lambda: app.finish(THREE, [1], 2**40)),
        (MalformedRequestError, lambda: Caller(gateway).connect(infinity)),
    ]
    for error, call in refused:
        with pytest.raises(error):
            call()
    gateway.fail_output(app.application, app.job_id, THREE)
    assert gateway.heartbeat(app.application, {ONE: 2}) == gateway.describe().incarnation
    assert gateway.report(app.application)[0].hits == 2


BAD_BODIES = (
    *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b'{"unknown": 1}', b"[" * 100_000),
    *(b'{"application": "../../etc"}', b'{"application": null, "job_id": 1}', b"{}x"),
    b'{"application": "' + b"0" * 100_000 + b'"}',
)


def test_every_call_is_a_post_with_the_token_that_says_what_it_is_to_say(
    kept: Kept, control: Callable[..., Any], served: Any
) -> None:
    token, asked = served.token, {"application": kept.app.application.hex}
    for call in (*CALLS, "nonsense", ""):
        for authorization in (
            *("", "Bearer ", f"Bearer {token}x", f"Bearer {token[:-1]}", f"bearer {token}"),
            *(f"Basic {token}", token, "Bearer \xe9\xff", f"Bearer  {token}"),
        ):
            refused = control(call, asked, Authorization=authorization)
            assert refused == (401, "UnauthorizedError"), call
    for call in CALLS:
        for method in ("GET", "PUT", "DELETE", "PATCH"):
            assert control(call, asked, method) == (400, "MalformedRequestError"), call
        for body in BAD_BODIES:
            assert control(call, body) == (400, "MalformedRequestError"), (call, body[:40])
    assert kept.app.outputs() == [ONE]
    with pytest.raises(UnauthorizedError):
        served.gateway("0" * 64).describe()


def test_a_start_and_a_part_that_can_not_be_are_refused(
    kept: Kept, control: Callable[..., Any], served: Any
) -> None:
    before = sorted(served.directory.rglob("*"))
    start = {"application": application_of_start(JOB, 1).hex, "job_id": JOB.hex, "epoch": 1}
    start |= {"lease_seconds": 60.0, "version": __version__}
    for changed in (
        *({"epoch": 0}, {"epoch": -1}, {"epoch": 2**63}, {"epoch": "1"}, {"epoch": 2}),
        *({"job_id": "../../x"}, {"job_id": ""}, {"job_id": "ab" * 101}, {"job_id": "AB"}),
        *({"lease_seconds": 0}, {"lease_seconds": -1.0}, {"application": "f" * 32}),
    ):
        refused = control("register_recovery", {**start, **changed})
        assert refused == (400, "MalformedRequestError"), changed
    output = {"application": kept.app.application.hex, "job_id": kept.app.job_id.hex}
    part = {"whole": ONE.name, "originals": [0, 2], "number_of_partitions": 3}
    for changed in (
        *({"whole": "../../x"}, {"whole": "1" * 64}, {"originals": []}, {"originals": [0, 0]}),
        *({"originals": [3]}, {"originals": [-1]}, {"number_of_partitions": None}),
        *({"number_of_partitions": 0}, {"version": 2}, {"more": 1}),
    ):
        asked = {**output, "output": ONE.name, "part": {**part, **changed}}
        assert control("open_output", asked) == (400, "MalformedRequestError"), changed
    assert sorted(served.directory.rglob("*")) == before


def test_an_overlong_call_is_refused(kept: Kept, ask: Ask, served: Any) -> None:
    path, token = f"{CONTROL_PREFIX}report", f"Bearer {served.token}"
    too_long = str(REQUEST_LIMIT + 1)
    status, _, body = ask(path, "POST", b"{", Authorization=token, Content_Length=too_long)
    assert (status, json.loads(body)["error"]) == (413, "RequestTooLargeError")
    chunks = (b" " * (1 << 20) for _ in range(18))
    status, _, body = ask(path, "POST", chunks, Authorization=token, Transfer_Encoding="chunked")
    assert (status, json.loads(body)["error"]) == (413, "RequestTooLargeError")
    assert kept.app.outputs() == [ONE]


def test_many_clients_are_served_at_once(kept: Kept, ask: Ask, served: Any) -> None:
    def work(number: int) -> bool:
        mine = Kept(served)
        mine.app.keep(FIVE, 0, 1, 2)
        (report,) = (r for r in mine.app.gateway.report(mine.app.application) if r.output == FIVE)
        whole = True
        for part in report.partitions:
            status, _, body = ask(f"{mine.base}/{FIVE}/{part.file}?op=OPEN&offset=1")
            expected = (Path(report.directory) / part.file).read_bytes()[1:]
            whole = whole and (status, body) == (200, expected)
        mine.end()
        return whole and not Path(report.directory).exists()

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(work, range(24)))
    assert kept.app.outputs() == [ONE]


# -- out of reach


@pytest.mark.parametrize("address", ["", "x", "x:", ":1", "x:0", "x:70000", "http://x", "x:1/y"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(StorageError, match="HOST:PORT"):
        RemoteTaskExecutor(address, "0" * 16)


def test_what_is_no_executor_or_never_answers_is_unreachable(
    free_port: int, silent_port: int, other_server: int
) -> None:
    timeouts = Timeouts(connect_seconds=1, sign_of_life_seconds=0.2, answer_seconds=0.2)
    for port, why in (
        (free_port, str(free_port)),
        (silent_port, "timed out"),
        (other_server, "status 501"),
    ):
        gateway = RemoteTaskExecutor(f"127.0.0.1:{port}", "0" * 16, timeouts)
        with pytest.raises(TaskExecutorUnreachableError, match=why):
            gateway.heartbeat(ApplicationID.random(), {})
