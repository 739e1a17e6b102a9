"""TLS to PostgreSQL: only a certificate signed by `database.ssl_ca_file` is trusted."""

import os
import shutil

import pytest
from harness.certificates import Authority
from harness.postgres import PostgresServer
from harness.stores import write_config


@pytest.fixture
def server():
    postgres = PostgresServer()
    authority = Authority(postgres.folder / "tls")
    certificate, key = authority.issue("localhost")
    key.chmod(0o600)
    if os.geteuid() == 0:
        for path in (authority.folder, certificate, key):
            shutil.chown(path, "postgres", "postgres")
    with open(postgres.folder / "data/postgresql.conf", "a", encoding="utf-8") as conf:
        conf.write(f"ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n")
    with postgres:
        postgres.ca_file = authority.ca_file
        yield postgres


def migrate(programs, folder, server, ca_file):
    database = {"host": "127.0.0.1", "port": server.port, "name": "postgres", "user": "postgres", "ssl_mode": "verify-full",
                "ssl_ca_file": str(ca_file)}
    return programs.run("migrate", "--config", write_config(folder, None, database=database))


def test_only_a_server_with_a_certificate_of_the_configured_authority_is_accepted(programs, tmp_path, server):
    refused = migrate(programs, tmp_path, server, Authority(tmp_path / "other").ca_file)
    assert refused.status == 1 and "certificate verify failed" in refused.stderr, refused.stderr
    migrate(programs, tmp_path, server, server.ca_file).ok()
    (row,) = server.query("postgres", "SELECT count(*) FROM pg_tables WHERE tablename = 'outbox'")
    assert row["count"] == 1
