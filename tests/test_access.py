"""Access: web pages in a browser on this machine, foreign host names, disguised paths."""

import hashlib
import http.client
import json
import time
from urllib.parse import urlsplit

import pytest
from harness.ports import free_port
from harness.process import program
from harness.service import Service, start_with_tokens, start_without_lanes, token
from harness.stores import write_config
from harness.waiting import wait_for
from harness.web import Page, get

ORDERS = "/api/v1/orders"
DEADLINE_SECONDS = 60
GUESSES = 50
FREE_REFUSALS, REFUSALS_PER_SECOND, LINES_PER_SECOND = 20, 10, 10  # of src/api/refusals.h


def ask(service, method, path, headers=(), body=None, host=None, version=11):
    """One request with exactly these headers and Host: `host`, by default the address called; "" omits it."""
    netloc = urlsplit(service.base).netloc
    connection = http.client.HTTPConnection(netloc, timeout=DEADLINE_SECONDS)
    connection._http_vsn, connection._http_vsn_str = version, f"HTTP/1.{version % 10}"
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if host != "":
            connection.putheader("Host", host or netloc)
        for name, value in dict(headers).items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return Page(answer.status, dict(answer.headers), answer.read().decode())
    finally:
        connection.close()


def order(number=1):
    key = f"order-{number:04}"
    return {"Idempotency-Key": key}, json.dumps(
        {"idempotency_key": key, "symbol": "AAPL", "intent": "BUY", "qty": 10}).encode()


def code(page):
    return page.status, page.json()["error"]["code"]


@pytest.fixture
def service(programs, tmp_path):
    """Without auth on loopback, as in the README."""
    return start_without_lanes(programs, tmp_path)


@pytest.fixture
def start(programs, tmp_path):
    def go(server=None, until_ready=True, **sections):
        port = free_port()
        config = write_config(tmp_path, None, database={"url": f"sqlite:{tmp_path}/doors.db"},
                              server={"port": port} | (server or {}), **sections)
        return Service(programs, config, port, until_ready=until_ready)

    return go


def test_a_host_name_rebound_to_this_machine_is_refused(service):
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/api/v1/dlq", "/nowhere"):
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.0.1",
                     "0.0.0.0", "[::2]", "2130706433", "localhost@evil.example", "::1"):
            assert code(ask(service, "GET", path, host=host)) == (421, "MISDIRECTED_REQUEST"), (path, host)


def test_a_request_without_a_host_is_refused(service):
    assert ask(service, "GET", "/healthz", host="", version=10).status == 421


def test_the_host_of_an_absolute_target_counts(service):
    assert ask(service, "GET", "http://evil.example/healthz").status == 421
    assert ask(service, "GET", "http://localhost/healthz", host="evil.example").status == 200


def test_loopback_has_many_names(service):
    for host in ("127.0.0.1", "localhost", "LOCALHOST:1234", "[::1]", "[::1]:8080", "127.9.9.9:1"):
        assert ask(service, "GET", "/healthz", host=host).status == 200, host


def test_more_names_can_be_allowed(start):
    service = start(server={"allowed_hosts": ["deliverd.internal", "other.internal:8443"]})
    for host in ("deliverd.internal", "Deliverd.Internal:99", "other.internal:8443", "localhost"):
        assert ask(service, "GET", "/healthz", host=host).status == 200, host
    for host in ("other.internal", "other.internal:99", "x.deliverd.internal", "internal"):
        assert ask(service, "GET", "/healthz", host=host).status == 421, host


def test_a_declared_proxy_accepts_any_name_unless_names_are_given(start):
    guarded = start(auth={"mode": "none"})
    assert ask(guarded, "GET", "/healthz", host="pod.example").status == 200
    named = start(auth={"mode": "none"}, server={"allowed_hosts": "deliverd.internal"})
    assert ask(named, "GET", "/healthz", host="pod.example").status == 421
    assert ask(named, "GET", "/healthz", host="deliverd.internal").status == 200


def test_with_tokens_any_host_name_is_accepted(start):
    hashed = hashlib.sha256(b"a long and secret token").hexdigest()
    service = start(auth={"tokens": [{"name": "ops", "role": "operator", "sha256": hashed}]})
    mine = {"Authorization": "Bearer a long and secret token", "Origin": "http://evil.example"}
    assert ask(service, "GET", "/metrics", mine, host="deliverd.example").status == 200


def test_a_foreign_page_is_refused(service):
    """As a browser sends it: a form or fetch of any page open on this machine."""
    headers, body = order()
    for page in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": ""}, {"Origin": "http://localhost:3000"},
                 {"Origin": "http://127.0.0.1"}, {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
                 {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "Cross-Site"}):
        sent = headers | page | {"Content-Type": "application/json"}
        assert code(ask(service, "POST", ORDERS, sent, body)) == (403, "FORBIDDEN_ORIGIN"), page
        for method in ("GET", "DELETE"):
            assert code(ask(service, method, "/api/v1/dlq", page)) == (403, "FORBIDDEN_ORIGIN"), page
    assert ask(service, "GET", f"{ORDERS}/order-0001").status == 404, "nothing was stored"


def test_its_own_page_is_not_foreign(service, start):
    headers, body = order()
    own = {"Origin": service.base, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    assert ask(service, "POST", ORDERS, headers | own, body).status == 201
    assert ask(service, "GET", "/api/v1/dlq", {"Sec-Fetch-Site": "none"}).status == 200, "typed by a person"
    behind_a_proxy = start(server={"allowed_hosts": "deliverd.internal"})
    for origin in ("https://deliverd.internal", "https://deliverd.internal:443", "http://deliverd.internal:80"):
        assert ask(behind_a_proxy, "GET", "/api/v1/dlq", {"Origin": origin}).status == 200, origin
    assert ask(behind_a_proxy, "GET", "/api/v1/dlq", {"Origin": "http://deliverd.internal:3000"}).status == 403


def test_a_body_not_declared_as_json_is_refused(service):
    """A page can send these without a preflight request."""
    headers, body = order()
    retry = "/api/v1/dlq/messages/550e8400-e29b-41d4-a716-446655440000/retry"
    for kind in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"},
                 {"Content-Type": "multipart/form-data; boundary=x"}, {"Content-Type": "application/jsonx"},
                 {"Content-Type": "text/plain; application/json"}):
        assert code(ask(service, "POST", ORDERS, headers | kind, body)) == (415, "UNSUPPORTED_MEDIA_TYPE"), kind
        assert ask(service, "POST", retry, kind, b"a=b").status == 415, kind
    assert ask(service, "POST", retry).status == 404, "without a body there is nothing to call JSON"
    assert ask(service, "GET", f"{ORDERS}/order-0001").status == 404, "nothing was stored"


def test_json_media_types_are_accepted(service):
    for number, kind in enumerate(("application/json", "Application/JSON ; charset=utf-8", "application/vnd.orders+json")):
        headers, body = order(number)
        assert ask(service, "POST", ORDERS, headers | {"Content-Type": kind}, body).status == 201, kind


def test_a_disguised_path_is_another_path(service):
    """A proxy that protects /metrics compares bytes, so deliverd does too."""
    for path in ("/%6detrics", "/metric%73", "/%68ealthz", "/api/v1/%64lq", "/api%2Fv1/dlq"):
        assert code(ask(service, "GET", path)) == (404, "NOT_FOUND"), path
    assert ask(service, "GET", f"{ORDERS}/%6frder-0001").json()["error"]["code"] == "ORDER_NOT_FOUND"


def test_thousands_of_unknown_parameters_are_answered_briefly(service):
    many = ask(service, "GET", "/api/v1/dlq/orders?" + "&".join(["x"] * 7900))
    assert code(many) == (400, "SYS_DLQ_VALIDATION_ERROR")
    assert len(many.text) < 8000
    purge = ask(service, "DELETE", "/api/v1/dlq?" + "&".join(["x=y"] * 3900))
    assert purge.status == 400 and len(purge.text) < 8000


def test_refusals_are_logged_counted_and_slowed_down(start):
    """Guessing tokens leaves traces and takes time. Callers with a token are not delayed."""
    hashed = hashlib.sha256(b"a long and secret token").hexdigest()
    service = start(auth={"tokens": [{"name": "ops", "role": "viewer", "sha256": hashed}]})
    mine = {"Authorization": "Bearer a long and secret token"}
    began = time.monotonic()
    for number in range(GUESSES):
        assert ask(service, "GET", "/api/v1/dlq", {"Authorization": f"Bearer guess-{number}"}).status == 401
    seconds = time.monotonic() - began
    assert seconds > (GUESSES - FREE_REFUSALS - 1) / REFUSALS_PER_SECOND
    assert ask(service, "POST", f"{ORDERS}", mine | {"Content-Type": "application/json"}, b"{}").status == 403
    began = time.monotonic()
    page = ask(service, "GET", "/metrics", mine)
    assert time.monotonic() - began < 1
    assert f'api_refused_total{{reason="token"}} {GUESSES}' in page.text
    assert 'api_refused_total{reason="role"} 1' in page.text
    lines = [json.loads(line) for line in service.process.stderr.splitlines() if "request refused" in line]
    assert lines[0]["address"] == "127.0.0.1" and lines[0]["path"] == "/api/v1/dlq" and lines[0]["reason"] == "token"
    assert len(lines) <= LINES_PER_SECOND * (seconds + 2) and len(lines) < GUESSES
    assert sum(line["not_logged_before"] for line in lines) >= FREE_REFUSALS - LINES_PER_SECOND
    assert "guess-" not in service.process.stderr


def test_readiness_hides_database_messages_from_strangers(programs, postgres, proxy, tmp_path):
    service = start_with_tokens(programs, tmp_path, postgres.server.url(postgres.database, port=proxy.port))
    proxy.refuse(True)
    proxy.cut()
    wait_for(lambda: service.get("/readyz").status == 503, 30, "/readyz to notice")
    stranger = service.get("/readyz").json()["error"]
    viewer = service.get("/readyz", token("vera")).json()["error"]
    assert stranger["message"] == "database is not ready; ask with a viewer's token for the cause"
    assert stranger["details"] == [{"field": "database", "message": "is not ready"}]
    assert str(proxy.port) in viewer["message"], "what libpq says names the address"


def test_a_token_is_revoked_without_a_restart(start, programs, tmp_path):
    made = [programs.run("token", "new", "--name", name, "--role", "viewer", "--json").ok().json_lines()[0]
            for name in ("vera", "otto")]
    line = programs.run("token", "new", "--name", "unused", "--role", "admin").ok().stdout.splitlines()[-1]
    path = tmp_path / "tokens.yaml"

    def write(tokens, more=""):
        fresh = tmp_path / "tokens.fresh"
        fresh.write_text(json.dumps([{name: token[name] for name in ("name", "role", "sha256")} for token in tokens]) + more)
        fresh.rename(path)

    path.write_text(line + "\n")
    service = start(auth={"tokens_file": str(path)})
    assert service.get("/metrics").status == 401

    def may(token):
        return service.get("/metrics", token["token"]).status == 200

    write(made)
    wait_for(lambda: may(made[0]) and may(made[1]), 30, "new tokens to be known")
    write(made[1:])
    wait_for(lambda: not may(made[0]), 30, "the token to be revoked")
    assert may(made[1])
    write([], more="]")
    service.process.wait_for_stderr("the tokens file is invalid")
    assert may(made[1]), "a mistake locks nobody out"
    assert made[1]["token"] not in service.process.stderr


def test_an_empty_tokens_file_lets_nobody_in(start, programs, tmp_path):
    """Emptying it revokes all tokens. It must not read as an API without tokens."""
    path, fresh = tmp_path / "tokens.yaml", tmp_path / "tokens.fresh"
    path.write_text("[]")
    service = start(auth={"tokens_file": str(path)})
    made = programs.run("token", "new", "--name", "vera", "--role", "viewer", "--json").ok().json_lines()[0]

    def status(token=None):
        return service.get("/metrics", token).status

    assert [status(), status(made["token"])] == [401, 401]
    for tokens, expected in (([{name: made[name] for name in ("name", "role", "sha256")}], 200), ([], 401)):
        fresh.write_text(json.dumps(tokens))
        fresh.rename(path)
        wait_for(lambda wanted=expected: status(made["token"]) == wanted, 30, f"{len(tokens)} tokens to be known")
        assert status() == 401


def test_tokens_over_plain_http_must_be_allowed_explicitly(programs, sqlite, tmp_path):
    hashed = hashlib.sha256(b"a long and secret token").hexdigest()
    auth = {"tokens": [{"name": "ops", "role": "viewer", "sha256": hashed}]}
    config = write_config(tmp_path, sqlite, auth=auth, server={"host": "0.0.0.0", "port": free_port()})
    for command in (["serve"], ["config", "check"]):
        assert "plain HTTP" in programs.run(*command, "--config", config).error_line(2)
    config = write_config(tmp_path, sqlite, auth=auth, server={"host": "0.0.0.0", "insecure_http": True})
    assert "plain HTTP" in programs.run("doctor", "--config", config).stdout


@pytest.mark.parametrize("word", ["", "test", "test\n", "password", "changeme", "admin", "123456\n"])
def test_hashes_of_common_words_are_refused(programs, sqlite, tmp_path, word):
    """In the configuration and in the tokens file, in upper or lower case."""
    hashed = hashlib.sha256(word.encode()).hexdigest()
    tokens = [{"name": "ops", "role": "admin", "sha256": hashed.upper()}]
    (tmp_path / "tokens.yaml").write_text(json.dumps(tokens))
    for auth in ({"tokens": tokens}, {"tokens_file": str(tmp_path / "tokens.yaml")}):
        config = write_config(tmp_path, sqlite, auth=auth, server={"port": free_port()})
        for command in (["config", "check"], ["serve"]):
            reported = programs.run(*command, "--config", config).error_line(2)
            assert "a word that is easy to guess" in reported and "token new" in reported and hashed not in reported.lower()


def test_config_show_hides_hashes_and_shows_spools(programs, sqlite, tmp_path):
    hashed = hashlib.sha256(b"a long and secret token").hexdigest()
    config = write_config(tmp_path, sqlite, auth={"tokens": [{"name": "ops", "role": "viewer", "sha256": hashed}]},
                          spools={"hooks": {"path": str(tmp_path / "hooks.jsonl"), "token_env": "HOOKS_TOKEN"}})
    for words in ([], ["--json"]):
        reported = programs.run("config", "show", "--config", config, *words, env={"HOOKS_TOKEN": "s3cret"}).ok().stdout
        assert hashed not in reported and "s3cret" not in reported
    shown = {row["setting"]: row["value"] for row in json.loads(reported)}
    assert (shown["auth.tokens[0].name"], shown["auth.tokens[0].sha256"]) == ("ops", "***")
    assert (shown["spools.hooks.path"], shown["spools.hooks.token_env"]) == (str(tmp_path / "hooks.jsonl"), "HOOKS_TOKEN")


def test_a_new_sqlite_file_is_private_to_its_owner(programs, tmp_path):
    """Whatever the umask; SQLite's companion files too."""
    port = free_port()
    config = write_config(tmp_path, None, database={"url": f"sqlite:{tmp_path}/new.db"}, server={"port": port})
    programs.start_command(["sh", "-c", 'umask 0 && exec "$@"', "sh", program("deliverd"), "serve", "--config", config])
    wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz").status == 200, DEADLINE_SECONDS, "serve to be ready")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("new.db*")}
    assert modes == dict.fromkeys(("new.db", "new.db-wal", "new.db-shm"), 0o600)
