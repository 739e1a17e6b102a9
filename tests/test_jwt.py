"""Callers with tokens of an OpenID provider: their roles, and rotation of the provider's keys."""

import base64
import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from harness.openid import AUDIENCE, ISSUER, Key, Provider, key_set
from harness.ports import free_port
from harness.service import Service
from harness.stores import write_config
from harness.waiting import wait_for
from harness.web import get

KEYS_DEADLINE_SECONDS = 60  # longer than a token with a new key may have to wait (kJwksTimes in src/daemon/jwks_refresh.h)
ORDERS = "/api/v1/orders"
ANONYMOUS = "send a valid token as 'Authorization: Bearer TOKEN'"  # every refused caller gets only this
ROLES = {"deliverd-readers": "viewer", "deliverd-ops": "operator", "deliverd-root": "admin"}


def jwt_section(**source):
    return {"jwt": {"issuer": ISSUER, "audience": AUDIENCE, "role_claim": "realm_access.roles", "roles": ROLES} | source}


@pytest.fixture
def start(programs, tmp_path):
    def go(**source):
        port = free_port()
        config = write_config(tmp_path, None, database={"url": f"sqlite:{tmp_path}/jwt.db"}, server={"port": port},
                              auth=jwt_section(**source))
        return Service(programs, config, port)

    return go


def post_order(service, token, key):
    body = json.dumps({"idempotency_key": key, "symbol": "AAPL", "intent": "BUY", "qty": 10}).encode()
    return get(service.base + ORDERS, method="POST", body=body,
               headers={"Authorization": f"Bearer {token}", "Idempotency-Key": key})


def may_look(service, token):
    return service.get("/metrics", token).status == 200


def unsigned(header, claims):
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_roles_of_the_provider_apply(start, algorithm):
    key = Key("first", algorithm)
    with Provider(key) as provider:
        service = start(jwks_url=provider.url)
        reader, operator = key.token("deliverd-readers", "others"), key.token("deliverd-readers", "deliverd-ops")
        wait_for(lambda: may_look(service, reader), KEYS_DEADLINE_SECONDS, "the keys to be known")
        assert post_order(service, reader, "order-0001").status == 403
        assert post_order(service, operator, "order-0001").status == 201
        assert service.get("/api/v1/dlq", operator).status == 200
        purge = "/api/v1/dlq?status=DEAD&older_than_seconds=604800"
        assert service.get(purge, operator, method="DELETE").status == 403
        assert service.get(purge, key.token("deliverd-root"), method="DELETE").status == 200
        assert service.get("/metrics", key.token("others")).status == 403
        assert service.get("/metrics").status == 401
        audit = service.get(f"{ORDERS}/order-0001", reader).json()["audit"]
        assert audit[0]["actor"] == "jwt:alice"


def test_foreign_tokens_are_refused_and_logged(start, tmp_path):
    key, stranger = Key("first", "RS256"), Key("first", "RS256")
    path = tmp_path / "keys.json"
    path.write_text(key_set(key))
    service = start(jwks_file=str(path))
    good = key.token("deliverd-root")
    assert may_look(service, good)
    claims = jwt.decode(good, options={"verify_signature": False})
    confused = unsigned({"alg": "HS256", "kid": "first"}, claims)
    public = key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    mac = base64.urlsafe_b64encode(hmac.digest(public, confused.encode(), hashlib.sha256)).rstrip(b"=").decode()
    refused = {"jwt_algorithm": [unsigned({"alg": "none"}, claims) + ".", f"{confused}.{mac}"],
               "jwt_signature": [stranger.token("deliverd-root")],
               "jwt_expired": [key.token("deliverd-root", seconds=-60)],
               "jwt_not_yet_valid": [key.token("deliverd-root", nbf=claims["exp"])],
               "jwt_issuer": [key.token("deliverd-root", iss="https://other.example")],
               "jwt_audience": [key.token("deliverd-root", aud=["other"])],
               "jwt_key": [Key("second").token("deliverd-root")],
               "jwt_claims": [key.token("deliverd-root", sub="a\nb")],
               "jwt_malformed": ["a.b.c", good + "="]}
    for tokens in refused.values():
        for token in tokens:
            page = service.get("/metrics", token)
            assert (page.status, page.json()["error"]["message"]) == (401, ANONYMOUS)
    counted = service.metrics(good)
    for reason, tokens in refused.items():
        assert counted[f'api_refused_total{{reason="{reason}"}}'] == len(tokens), reason
    assert "jwt_audience: the token is not for the audience deliverd" in service.process.stderr
    assert good not in service.process.stderr and claims["sub"] not in service.process.stderr


def test_keys_of_a_file_change_without_a_restart(start, tmp_path):
    old, new = Key("old"), Key("new", "EdDSA")
    path, fresh = tmp_path / "keys.json", tmp_path / "keys.fresh"

    def write(text):
        fresh.write_text(text)
        fresh.rename(path)

    write(key_set(old))
    service = start(jwks_file=str(path))
    before, after = old.token("deliverd-readers"), new.token("deliverd-readers")
    assert may_look(service, before) and not may_look(service, after)
    write(key_set(old, new))
    wait_for(lambda: may_look(service, after), KEYS_DEADLINE_SECONDS, "the new key to be known")
    assert may_look(service, before)
    write(key_set(new))
    wait_for(lambda: not may_look(service, before), KEYS_DEADLINE_SECONDS, "the old key to be gone")
    write("{")
    service.process.wait_for_stderr("cannot read the keys")
    assert may_look(service, after), "a mistake in the keys locks nobody out"


def test_a_new_key_of_the_provider_is_fetched_when_a_token_names_it(start):
    old, new = Key("old"), Key("new")
    with Provider(old) as provider:
        service = start(jwks_url=provider.url)
        before, after = old.token("deliverd-readers"), new.token("deliverd-readers")
        wait_for(lambda: may_look(service, before), KEYS_DEADLINE_SECONDS, "the keys to be known")
        fetches = provider.fetches
        provider.body = key_set(new)
        wait_for(lambda: may_look(service, after), KEYS_DEADLINE_SECONDS, "the new key to be fetched")
        assert not may_look(service, before), "the provider has removed it"
        assert provider.fetches == fetches + 1, "not for each token"
        provider.status = 503
        service.get("/metrics", Key("third").token("deliverd-readers"))
        service.process.wait_for_stderr("HTTP 503", KEYS_DEADLINE_SECONDS)
        assert may_look(service, after), "the keys that are known stay in use"


def test_serve_starts_while_the_provider_is_unreachable(start, programs, tmp_path):
    port = free_port()
    key = Key("first")
    url = f"http://127.0.0.1:{port}/keys"
    service = start(jwks_url=url)
    service.process.wait_for_stderr("cannot read the keys")
    assert service.get("/metrics", key.token("deliverd-readers")).status == 401
    service.process.wait_for_stderr("no key of the provider is known")
    config = write_config(tmp_path, None, database={"url": f"sqlite:{tmp_path}/jwt.db"}, auth=jwt_section(jwks_url=url))
    doctor = programs.run("doctor", "--config", config)
    assert doctor.status == 1 and "BAD  jwt keys" in doctor.stdout and url in doctor.stdout
    with Provider(key, port=port):
        token = key.token("deliverd-readers")
        wait_for(lambda: may_look(service, token), KEYS_DEADLINE_SECONDS, "the provider to be noticed")
        doctor = programs.run("doctor", "--config", config).ok()
        assert f"1 usable in {url}" in doctor.stdout


def test_keys_over_plain_http_are_refused(programs, tmp_path):
    config = write_config(tmp_path, None, auth=jwt_section(jwks_url="http://id.example/keys"))
    assert "must be https" in programs.run("config", "check", "--config", config).error_line(2)


def test_credentials_in_the_url_of_the_keys_are_shown_nowhere(start, programs, tmp_path):
    """Not in the log, not by `doctor`, not by `config show`: a provider may protect its keys by a password or a code."""
    port = free_port()
    url = f"http://reader:hunter2@127.0.0.1:{port}/keys?code=s3cret"
    service = start(jwks_url=url)
    service.process.wait_for_stderr("cannot read the keys")
    config = write_config(tmp_path, None, database={"url": f"sqlite:{tmp_path}/jwt.db"}, auth=jwt_section(jwks_url=url))
    doctor = programs.run("doctor", "--config", config)
    shown = [programs.run("config", "show", "--config", config, *words).ok() for words in ([], ["--json"])]
    wrong = write_config(tmp_path, None, auth=jwt_section(jwks_url=url.replace("127.0.0.1", "id.example")))
    refused = programs.run("config", "check", "--config", wrong)
    assert doctor.status == 1 and refused.status == 2
    for text in (service.process.stderr, *(done.stdout + done.stderr for done in (doctor, refused, *shown))):
        assert "hunter2" not in text and "s3cret" not in text, text
    assert f"http://reader:***@127.0.0.1:{port}/keys?code=***" in shown[0].stdout
