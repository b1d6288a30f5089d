"""A real task executor process: who may call it, what it serves, and that nothing else gets out."""

from __future__ import annotations

import http.client
import json
import os
import string
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import (
    DuplicateRegistrationError,
    MalformedRequestError,
    StorageError,
    TaskExecutorUnreachableError,
    UnauthorizedError,
    UnknownApplicationError,
    UnknownJobError,
    UnknownPartitionError,
    VersionMismatchError,
)
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID, application_of_start
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.calls.control_calls import CALLS, CONTROL_PREFIX, REQUEST_LIMIT
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.token import read_key
from holdfast.version import __version__

SECRET = b"the bytes that nobody outside of this machine may see"


class Reader:
    """Asks a process for paths, as they are."""

    def __init__(self, served: Any) -> None:
        self.host, _, self.port = served.address.rpartition(":")

    def ask(
        self,
        path: str,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.host, int(self.port), timeout=20)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if body is not None and "Content-Length" not in (headers or {}):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        finally:
            connection.close()


class Raw(http.client.HTTPConnection):
    """Sends paths that no decent client would."""

    def _validate_path(self, url: str) -> None:
        return None

    def _encode_request(self, request: str) -> bytes:
        return request.encode("latin-1", "replace")


@pytest.fixture(scope="module")
def app(served: Any, make_caller: Any) -> Any:
    app = make_caller(served.gateway()).connect(lease_seconds=3600)
    app.output = app.keep("1")
    app.reports = {each.output: each for each in app.gateway.report(app.application)}
    app.part = app.reports[app.output].partitions[0]
    app.place = Path(app.reports[app.output].directory)
    app.base = "/webhdfs/v1/" + app.read_root.split("/", 3)[3]
    app.url = f"{app.base}/{app.output}/{app.part.file}"
    app.bytes = (app.place / app.part.file).read_bytes()
    (served.directory.parent / "secret").write_bytes(SECRET)
    return app


@pytest.fixture(scope="module")
def reader(served: Any) -> Reader:
    return Reader(served)


def control(served: Any, call: str, body: bytes, **headers: str) -> tuple[int, Any]:
    given = {"Authorization": f"Bearer {served.token}", **headers}
    status, _, answer = Reader(served).ask(
        f"{CONTROL_PREFIX}{call}", "POST", {n: v for n, v in given.items() if v}, body
    )
    return status, json.loads(answer)


def exception(answer: bytes) -> str:
    return str(json.loads(answer)["RemoteException"]["exception"])


# -- reading


def test_a_partition_is_served_as_hadoop_asks_for_it(app: Any, reader: Reader) -> None:
    status, headers, body = reader.ask(f"{app.url}?op=OPEN&user.name=spark&buffersize=4096")
    assert (status, body) == (307, b"")
    onward = "/" + headers["location"].split("/", 3)[3]
    for path, expected in (
        (onward, app.bytes),
        (f"{onward}&offset=0", app.bytes),
        (f"{onward}&offset=7", app.bytes[7:]),
        (f"{app.url}?op=open&offset=7&length=11", app.bytes[7:18]),
        (f"{app.url}?op=OPEN&OFFSET=7&length=0", b""),
        (f"{app.url}?op=OPEN&offset={len(app.bytes)}", b""),
        (f"{app.url}?op=OPEN&offset=1&length={10**17}", app.bytes[1:]),
    ):
        status, headers, body = reader.ask(path)
        assert (status, body) == (200, expected)
        assert headers["content-length"] == str(len(expected))
        assert "content-type" not in headers
        assert "server" not in headers


def test_statuses_and_locations_are_told(app: Any, reader: Reader, served: Any) -> None:
    def ask(path: str) -> Any:
        status, headers, body = reader.ask(path)
        assert (status, "content-type" in headers) == (200, False)
        return json.loads(body)

    directory = ask(f"{app.base}/{app.output}?op=GETFILESTATUS")["FileStatus"]
    assert (directory["type"], directory["length"]) == ("DIRECTORY", 0)
    file = ask(f"{app.url}?op=GETFILESTATUS")["FileStatus"]
    assert (file["type"], file["length"]) == ("FILE", app.part.bytes)
    assert file["modificationTime"] == (app.place / app.part.file).stat().st_mtime_ns // 10**6
    listed = ask(f"{app.base}/{app.output}?op=LISTSTATUS")["FileStatuses"]["FileStatus"]
    assert [each["pathSuffix"] for each in listed] == [
        part.file for part in app.reports[app.output].partitions
    ]
    root = ask(f"{app.base}?op=LISTSTATUS")["FileStatuses"]["FileStatus"]
    assert app.output.name in [each["pathSuffix"] for each in root]
    located = ask(f"{app.url}?op=GETFILEBLOCKLOCATIONS&offset=0&length=9")
    (block,) = located["BlockLocations"]["BlockLocation"]
    assert (block["hosts"], block["length"]) == (["127.0.0.1"], app.part.bytes)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "MOVE"])
def test_partitions_are_only_read(app: Any, reader: Reader, method: str) -> None:
    for operation in ("OPEN", "CREATE", "DELETE", "RENAME", "APPEND", "CONCAT"):
        status, _, _ = reader.ask(f"{app.url}?op={operation}&offset=0&destination=/x", method)
        assert status == 405
    assert (app.place / app.part.file).read_bytes() == app.bytes


@pytest.mark.parametrize(
    "query",
    [
        *("op=CREATE", "op=DELETE", "op=RENAME&destination=/x", "op=MKDIRS", "op=SETPERMISSION"),
        *("op=GETDELEGATIONTOKEN", "op=", "", "op=OPEN%00", "&".join(["a=b"] * 99)),
        *("op=OPEN&offset=-1", "op=OPEN&offset=x", "op=OPEN&offset=", "op=OPEN&offset=1e3"),
        *("op=OPEN&offset=99999999", f"op=OPEN&offset={10**30}", "op=OPEN&offset=0&length=-5"),
        *("op=OPEN&offset=0&length=x", "op=OPEN&offset=0x1", "op=OPEN&offset=%D9%A1"),
    ],
)
def test_what_is_not_reading_is_refused(app: Any, reader: Reader, query: str) -> None:
    status, _, body = reader.ask(f"{app.url}?{query}")
    assert (status, exception(body)) == (400, "IllegalArgumentException")


def test_a_read_key_opens_its_own_application_alone(
    app: Any, reader: Reader, served: Any, make_caller: Any
) -> None:
    other = make_caller(served.gateway()).connect()
    wrong = app.base.split("/")[3]
    for key in ("0" * 64, wrong[::-1], read_key(served.token, other.application)):
        for path in (app.url, app.base):
            status, _, body = reader.ask(f"{path}?op=OPEN&offset=0".replace(wrong, key))
            assert (status, exception(body)) == (403, "AccessControlException")
    unknown = ApplicationID.random()
    path = f"/webhdfs/v1/{'0' * 64}/application-{unknown.hex}/datasets?op=LISTSTATUS"
    # Whoever has no key isn't told which applications there are.
    assert reader.ask(path)[0] == 403
    other.gateway.unregister_application(other.application)
    status, _, body = reader.ask(
        f"/webhdfs/v1/{read_key(served.token, other.application)}"
        f"/application-{other.application.hex}/datasets?op=LISTSTATUS"
    )
    assert (status, exception(body)) == (404, "FileNotFoundException")
    other.gateway.close()


ESCAPES = [
    "..",
    "%2e%2e",
    "%2E.",
    "%252e%252e",
    "..%2f..",
    "..%5c..",
    "..%c0%af..",
    "....//",
    ".%00./..",
    "%00",
    "x%00.parquet",
    "//etc/passwd",
    "%2fetc%2fpasswd",
    "/etc/passwd",
    "C:%5cwindows",
    "~root",
    "_manifest.json",
    "_output.json",
    ".",
    "",
    "lock",
    "a" * 300,
    "../" * 40 + "etc/passwd",
]


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_path_leads_out(app: Any, reader: Reader, served: Any, escape: str) -> None:
    secret = served.directory.parent / "secret"
    ups = "/".join([escape] * 6)
    starts = (app.base, f"{app.base}/{app.output}", app.url, app.base.rpartition("/")[0])
    for start in (*starts, "/webhdfs/v1", "", CONTROL_PREFIX):
        for path in (
            f"{start}/{escape}",
            f"{start}/{ups}/secret",
            f"{start}/{ups}{secret}",
            f"{start}/{escape}{quote(str(secret), safe='')}",
        ):
            status, _, body = reader.ask(f"{path}?op=OPEN&offset=0")
            assert status in (400, 401, 403, 404), path
            assert SECRET not in body and b"root:" not in body


def test_absolute_targets_and_long_ones_lead_nowhere(app: Any, reader: Reader) -> None:
    for target in (f"http://evil{app.url}?op=OPEN&offset=0", "*", "x", "/" + "a" * 100_000):
        connection = Raw(reader.host, int(reader.port), timeout=20)
        connection.request("GET", target)
        answer = connection.getresponse()
        assert answer.status in (400, 404)
        assert app.bytes not in answer.read()
        connection.close()


def test_links_are_not_followed(app: Any, reader: Reader, served: Any, make_caller: Any) -> None:
    secret = served.directory.parent / "secret"
    mine = make_caller(served.gateway()).connect()
    output = mine.keep("2")
    place = Path(mine.gateway.report(mine.application)[0].directory)
    part = mine.gateway.report(mine.application)[0].partitions[0]
    base = "/webhdfs/v1/" + mine.read_root.split("/", 3)[3]
    path = f"{base}/{output}/{part.file}?op=OPEN&offset=0"
    assert reader.ask(path)[0] == 200
    (place / part.file).rename(served.directory.parent / "moved")
    (place / part.file).symlink_to(served.directory.parent / "moved")
    assert reader.ask(path)[0] == 404
    (place / part.file).unlink()
    (place / part.file).symlink_to(secret)
    assert reader.ask(path)[0] == 404
    place.rename(served.directory.parent / "moved-output")
    place.symlink_to(served.directory.parent / "moved-output")
    assert reader.ask(f"{base}/{output}/{mine_second(mine)}?op=OPEN&offset=0")[0] == 404
    assert (place.parent / "x").symlink_to(secret.parent) is None
    assert reader.ask(f"{base}/x/secret?op=OPEN&offset=0")[0] == 404
    place.unlink()
    mine.gateway.unregister_application(mine.application)
    assert secret.read_bytes() == SECRET
    assert (served.directory.parent / "moved-output").is_dir()
    mine.gateway.close()


def mine_second(mine: Any) -> str:
    return str(mine.gateway.report(mine.application)[0].partitions[1].file)


def test_a_partition_that_was_written_to_is_not_served(
    app: Any, reader: Reader, served: Any, make_caller: Any
) -> None:
    mine = make_caller(served.gateway()).connect()
    output = mine.keep("2")
    (report,) = mine.gateway.report(mine.application)
    first, second = report.partitions
    os.utime(Path(report.directory) / first.file, ns=(1, 1))
    os.truncate(Path(report.directory) / second.file, 10)
    base = "/webhdfs/v1/" + mine.read_root.split("/", 3)[3]
    for part in report.partitions:
        status, _, body = reader.ask(f"{base}/{output}/{part.file}?op=OPEN&offset=0")
        assert (status, exception(body)) == (404, "FileNotFoundException")
    assert mine.gateway.damage(mine.application, output) is not None
    mine.gateway.unregister_application(mine.application)
    mine.gateway.close()


PIECES = st.one_of(
    st.sampled_from([*ESCAPES, "application-", "datasets", "staging", "part-00000-x-c000"]),
    st.text(alphabet=string.printable.replace(" ", ""), max_size=12),
    st.binary(max_size=6).map(lambda raw: "".join(f"%{byte:02x}" for byte in raw)),
)


@given(pieces=st.lists(PIECES, max_size=6), start=st.integers(0, 4), query=PIECES)
def test_random_paths_give_nothing_away(
    app: Any, reader: Reader, served: Any, pieces: list[str], start: int, query: str
) -> None:
    starts = (app.base, f"{app.base}/{app.output}", app.url, "/webhdfs/v1", "")
    path = "/".join([starts[start], *pieces])
    target = "".join(each for each in f"{path}?op=OPEN&offset=0&{query}" if each.isprintable())
    connection = Raw(reader.host, int(reader.port), timeout=20)
    try:
        connection.request("GET", target.replace(" ", "%20") or "/")
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    assert answer.status in (200, 400, 401, 403, 404)
    # The one thing that is there to be read may be read, and nothing else.
    assert answer.status != 200 or body == app.bytes
    assert SECRET not in body and b"root:" not in body


# -- calling


def test_errors_come_back_as_what_they_are(app: Any, served: Any, tmp_path: Path) -> None:
    gateway: RemoteTaskExecutor = served.gateway()
    job, output = JobID.random(), OutputID(IntermediateDataSetID("3" * 64), "0badcafe")
    with pytest.raises(DuplicateRegistrationError) as duplicate:
        gateway.register_application(app.application, 9, __version__)
    assert duplicate.value.what == f"application {app.application.hex}"
    with pytest.raises(VersionMismatchError) as mismatch:
        gateway.register_application(ApplicationID.random(), 9, "0.0.0")
    assert (mismatch.value.found, mismatch.value.expected) == ("0.0.0", __version__)
    with pytest.raises(UnknownApplicationError):
        gateway.heartbeat(ApplicationID.random(), {})
    with pytest.raises(UnknownJobError):
        gateway.open_output(app.application, job, output)
    with pytest.raises(DuplicateRegistrationError):
        gateway.register_job(app.application, app.job_id)
    gateway.open_output(app.application, app.job_id, output)
    with pytest.raises(UnknownPartitionError):
        gateway.finish_output(app.application, app.job_id, output, [1], 2)
    with pytest.raises(MalformedRequestError):
        gateway.finish_output(app.application, app.job_id, output, [1, 1], 2)
    with pytest.raises(MalformedRequestError):
        gateway.finish_output(app.application, app.job_id, output, [1], 2**40)
    with pytest.raises(MalformedRequestError):
        gateway.register_application(ApplicationID.random(), float("inf"), __version__)
    gateway.fail_output(app.application, app.job_id, output)
    assert gateway.heartbeat(app.application, {app.output: 2}) == gateway.describe().incarnation
    assert gateway.report(app.application)[0].hits == 2
    gateway.close()


@pytest.mark.parametrize("call", [*CALLS, "nonsense", ""])
def test_every_call_takes_the_token(served: Any, app: Any, call: str) -> None:
    body = json.dumps({"application": app.application.hex}).encode()
    token = served.token
    for authorization in (
        *("", "Bearer ", f"Bearer {token}x", f"Bearer {token[:-1]}", f"bearer {token}"),
        *(f"Basic {token}", token, "Bearer \xe9\xff", f"Bearer  {token}"),
    ):
        status, answer = control(served, call, body, Authorization=authorization)
        assert (status, answer["error"]) == (401, "UnauthorizedError")
        assert token not in json.dumps(answer)
    assert app.outputs() == [app.output]
    with pytest.raises(UnauthorizedError):
        served.gateway("0" * 64).describe()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_every_call_is_a_post(served: Any, reader: Reader, call: str, method: str) -> None:
    status, _, body = reader.ask(
        f"{CONTROL_PREFIX}{call}", method, {"Authorization": f"Bearer {served.token}"}
    )
    assert (status, json.loads(body)["error"]) == (400, "MalformedRequestError")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b'{"unknown": 1}', b"[" * 100_000),
        *(b'{"application": "../../etc"}', b'{"application": null, "job_id": 1}', b"{}x"),
        b'{"application": "' + b"0" * 100_000 + b'"}',
    ],
)
def test_a_malformed_call_changes_nothing(served: Any, app: Any, call: str, body: bytes) -> None:
    status, answer = control(served, call, body)
    assert (status, answer["error"]) == (400, "MalformedRequestError")
    assert len(answer["message"]) < 1000
    assert app.outputs() == [app.output]


JOB = JobID("ab" * 16)


@pytest.mark.parametrize(
    "changed",
    [
        *({"epoch": 0}, {"epoch": -1}, {"epoch": 2**63}, {"epoch": "1"}, {"epoch": 2}),
        *({"job_id": "../../x"}, {"job_id": ""}, {"job_id": "ab" * 101}, {"job_id": "AB"}),
        *({"lease_seconds": 0}, {"lease_seconds": -1.0}, {"application": "f" * 32}),
    ],
)
def test_a_start_that_can_not_be_takes_nothing_over(
    served: Any, app: Any, changed: dict[str, Any]
) -> None:
    before = sorted(served.directory.rglob("*"))
    asked = {
        "application": application_of_start(JOB, 1).hex,
        "job_id": JOB.hex,
        "epoch": 1,
        "lease_seconds": 60.0,
        "version": __version__,
        **changed,
    }
    status, answer = control(served, "register_recovery", json.dumps(asked).encode())
    assert (status, answer["error"]) == (400, "MalformedRequestError")
    assert sorted(served.directory.rglob("*")) == before


@pytest.mark.parametrize(
    "changed",
    [
        *({"whole": "../../x"}, {"whole": "1" * 64}, {"originals": []}, {"originals": [0, 0]}),
        *({"originals": [3]}, {"originals": [-1]}, {"number_of_partitions": None}),
        *({"number_of_partitions": 0}, {"version": 2}, {"more": 1}),
    ],
)
def test_a_part_that_can_not_be_is_not_opened(
    served: Any, app: Any, changed: dict[str, Any]
) -> None:
    asked = {
        "application": app.application.hex,
        "job_id": app.job_id.hex,
        "output": app.output.name,
        "part": {
            "whole": app.output.name,
            "originals": [0, 2],
            "number_of_partitions": 3,
            **changed,
        },
    }
    status, answer = control(served, "open_output", json.dumps(asked).encode())
    assert (status, answer["error"]) == (400, "MalformedRequestError")


def test_an_overlong_call_is_refused(served: Any, app: Any, reader: Reader) -> None:
    headers = {"Authorization": f"Bearer {served.token}", "Content-Length": str(REQUEST_LIMIT + 1)}
    status, _, body = reader.ask(f"{CONTROL_PREFIX}report", "POST", headers, b"{")
    assert (status, json.loads(body)["error"]) == (413, "RequestTooLargeError")
    chunked = {"Authorization": f"Bearer {served.token}", "Transfer-Encoding": "chunked"}
    connection = http.client.HTTPConnection(reader.host, int(reader.port), timeout=20)
    chunks: Iterator[bytes] = (b" " * (1 << 20) for _ in range(18))
    try:
        connection.request(
            "POST", f"{CONTROL_PREFIX}report", body=chunks, headers=chunked, encode_chunked=True
        )
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]) == (413, "RequestTooLargeError")
    finally:
        connection.close()
    assert app.outputs() == [app.output]


def test_many_clients_are_served_at_once(served: Any, app: Any, make_caller: Any) -> None:
    def work(number: int) -> bool:
        mine = make_caller(served.gateway()).connect()
        output = mine.keep("5", (0, 1, 2))
        (report,) = mine.gateway.report(mine.application)
        base = "/webhdfs/v1/" + mine.read_root.split("/", 3)[3]
        whole = True
        for part in report.partitions:
            status, _, body = Reader(served).ask(f"{base}/{output}/{part.file}?op=OPEN&offset=1")
            expected = (Path(report.directory) / part.file).read_bytes()[1:]
            whole = whole and (status, body) == (200, expected)
        mine.gateway.unregister_application(mine.application)
        mine.gateway.close()
        return whole and not Path(report.directory).exists()

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(work, range(36)))
    assert app.outputs() == [app.output]


# -- out of reach


@pytest.mark.parametrize("address", ["", "x", "x:", ":1", "x:0", "x:70000", "http://x", "x:1/y"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(StorageError, match="HOST:PORT"):
        RemoteTaskExecutor(address, "0" * 16)


def test_nobody_there_is_unreachable(free_port: int) -> None:
    gateway = RemoteTaskExecutor(f"127.0.0.1:{free_port}", "0" * 16)
    with pytest.raises(TaskExecutorUnreachableError, match=str(free_port)):
        gateway.describe()


def test_one_that_never_answers_is_unreachable(silent_port: int) -> None:
    timeouts = Timeouts(connect_seconds=1, sign_of_life_seconds=0.2, answer_seconds=0.2)
    gateway = RemoteTaskExecutor(f"127.0.0.1:{silent_port}", "0" * 16, timeouts)
    with pytest.raises(TaskExecutorUnreachableError, match="timed out"):
        gateway.heartbeat(ApplicationID.random(), {})


def test_another_server_is_unreachable(other_server: int) -> None:
    gateway = RemoteTaskExecutor(f"127.0.0.1:{other_server}", "0" * 16)
    with pytest.raises(TaskExecutorUnreachableError, match="status 501"):
        gateway.describe()
