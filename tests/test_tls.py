"""The API over TLS: which clients are accepted, certificate rotation while serving, clients without TLS."""

import contextlib
import hashlib
import http.client
import json
import socket
import ssl
import struct
import subprocess
import threading

import pytest
from harness.certificates import Authority
from harness.ports import free_port
from harness.stores import write_config
from harness.waiting import wait_for
from harness.web import Dripping, get

TOKEN = "a long and secret token"
AUTH = {"tokens": [{"name": "ops", "role": "viewer", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}]}
# The header of a TLS record that announces a ClientHello of 512 bytes.
BEGUN_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01"
DEADLINE_SECONDS = 30


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


def trusting(authority, certificate=None, version=None):
    context = ssl.create_default_context(cafile=authority.ca_file)
    if certificate:
        context.load_cert_chain(*certificate)
    if version:
        context.minimum_version = context.maximum_version = version
    return context


class Served:
    """`serve` with a certificate of `authority` in files that renew() replaces."""

    def __init__(self, programs, folder, authority, server=None, certificate=None, **sections):
        self.port = free_port()
        self.authority = authority
        self.cert_file, self.key_file = folder / "tls.crt", folder / "tls.key"
        self.renew("first")
        tls = {"cert_file": str(self.cert_file), "key_file": str(self.key_file)} | (server or {}).pop("tls", {})
        config = write_config(folder, None, database={"url": f"sqlite:{folder}/tls.db"},
                              server={"port": self.port, "tls": tls} | (server or {}), **sections)
        self.context = trusting(authority, certificate)
        self.process = programs.start("serve", "--config", config)
        wait_for(lambda: self.get("/readyz").status == 200, DEADLINE_SECONDS,
                 lambda: f"serve to be ready: {self.process.stderr[-3000:]}")

    def renew(self, name):
        for made, file in zip(self.authority.issue(name), (self.cert_file, self.key_file)):
            made.rename(file)

    def get(self, path, context=None, **headers):
        return get(f"https://127.0.0.1:{self.port}{path}", headers=headers, context=context or self.context)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_SECONDS)

    def name(self):
        """The common name of the certificate that a new connection gets."""
        with self.context.wrap_socket(self.connect(), server_hostname="127.0.0.1") as client:
            return dict(part for part, in client.getpeercert()["subject"])["commonName"]


@pytest.fixture
def start(programs, tmp_path, authority):
    return lambda **how: Served(programs, tmp_path, authority, **how)


def test_tokens_on_an_open_address_need_tls_and_nothing_else(start, authority):
    served = start(server={"host": "0.0.0.0"}, auth=AUTH)
    assert served.get("/metrics").status == 401
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        page = served.get("/metrics", trusting(authority, version=version), Authorization=f"Bearer {TOKEN}")
        assert page.status == 200, (version, page.text)
    served.process.wait_for_stderr(f'"api":"https://0.0.0.0:{served.port}"')


def test_an_old_version_is_refused(start):
    served = start()

    def openssl(*how):
        done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{served.port}", "-cipher", "ALL:@SECLEVEL=0", *how],
                              input=b"", capture_output=True, timeout=DEADLINE_SECONDS)
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    assert openssl("-tls1_2")[0] == 0, "as this client offers itself"
    status, said = openssl("-tls1_1")
    assert status != 0 and "alert protocol version" in said, said


def test_mutual_tls_accepts_clients_of_the_authority(start, tmp_path, authority):
    clients, strangers = Authority(tmp_path / "clients"), Authority(tmp_path / "strangers")
    known = clients.issue("known")
    served = start(server={"tls": {"client_ca_file": str(clients.ca_file)}}, certificate=known)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        assert served.get("/healthz", trusting(authority, known, version)).status == 200
        for certificate in (None, strangers.issue("known")):
            page = served.get("/healthz", trusting(authority, certificate, version))
            assert page.status == 0 and "alert" in page.text.lower(), (version, certificate, page)


class Caller(threading.Thread):
    """Sends requests on one connection, and each time on a new one too, until stopped."""

    def __init__(self, served):
        super().__init__(daemon=True)
        self._served, self._enough = served, threading.Event()
        self.answers, self.wrong = 0, []

    def run(self):
        kept = http.client.HTTPSConnection("127.0.0.1", self._served.port, timeout=DEADLINE_SECONDS,
                                           context=self._served.context)
        try:
            kept.connect()
            mine = kept.sock
            while not self._enough.is_set():
                kept.request("GET", "/readyz")
                answer = kept.getresponse()
                answer.read()
                fresh = self._served.get("/healthz")
                if (answer.status, fresh.status, kept.sock) != (200, 200, mine):
                    self.wrong.append((answer.status, fresh))
                self.answers += 1
        except (OSError, http.client.HTTPException) as error:
            self.wrong.append(error)
        finally:
            kept.close()

    def end(self):
        self._enough.set()
        self.join(DEADLINE_SECONDS)
        assert not self.is_alive()


def test_certificates_change_while_it_serves(start):
    served = start()
    callers = [Caller(served) for _ in range(3)]
    for caller in callers:
        caller.start()
    try:
        for name in ("second", "third"):
            served.renew(name)
            wait_for(lambda wanted=name: served.name() == wanted, DEADLINE_SECONDS, lambda: f"{name}, not {served.name()}")
        served.cert_file.write_text(served.cert_file.read_text()[:300])  # as if somebody were still writing it
        served.process.wait_for_stderr("the TLS files are invalid")
        assert served.name() == "third"
        served.renew("fourth")
        wait_for(lambda: served.name() == "fourth", DEADLINE_SECONDS, lambda: f"fourth, not {served.name()}")
        seen = [caller.answers for caller in callers]
        wait_for(lambda: all(caller.answers > count for caller, count in zip(callers, seen)), DEADLINE_SECONDS, "more answers")
    finally:
        for caller in callers:
            caller.end()
    assert [caller.wrong for caller in callers] == [[], [], []]
    problem, = [json.loads(line)["problem"] for line in served.process.stderr.splitlines() if "files are invalid" in line]
    assert problem.startswith(f"{served.cert_file}: ")


def test_slow_handshakes_are_cut_off_while_others_are_served(start):
    served = start(server={"header_timeout_seconds": 2})
    with contextlib.ExitStack() as clients:
        slow = [Dripping(clients.enter_context(served.connect()), beginning) for beginning in [b"", BEGUN_HANDSHAKE] * 5]
        waiting, served_meanwhile = slow, []

        def all_are_closed():
            nonlocal waiting
            served_meanwhile.append(served.get("/healthz").status)
            waiting = [client for client in waiting if not client.is_closed()]
            return not waiting

        wait_for(all_are_closed, DEADLINE_SECONDS, lambda: f"{len(waiting)} slow clients to be closed")
        assert set(served_meanwhile) == {200}


def test_vanishing_clients_do_no_harm(start):
    served = start()
    for _ in range(20):
        client = served.context.wrap_socket(served.connect(), server_hostname="127.0.0.1")
        client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # with a reset
    assert served.get("/healthz").status == 200
    served.process.terminate()
    assert served.process.wait() == 0


def test_plain_http_gets_an_explanation_and_counts_as_foreign(start):
    served = start()
    page = get(f"http://127.0.0.1:{served.port}/healthz")
    assert (page.status, page.json()["error"]["code"]) == (400, "BAD_REQUEST")
    assert "https://" in page.json()["error"]["message"]
    assert served.get("/api/v1/dlq", Origin=f"https://127.0.0.1:{served.port}").status == 200
    assert served.get("/api/v1/dlq", Origin=f"http://127.0.0.1:{served.port}").status == 403


def test_files_that_are_missing_are_named_before_anything_starts(programs, sqlite, tmp_path):
    tls = {"cert_file": str(tmp_path / "none.crt"), "key_file": str(tmp_path / "none.key")}
    config = write_config(tmp_path, sqlite, server={"port": free_port(), "tls": tls})
    for command in (["serve"], ["config", "check"]):
        assert f"server.tls: {tmp_path}/none.crt: No such file" in programs.run(*command, "--config", config).error_line(2)
