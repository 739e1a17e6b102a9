"""Servers once a run, a fresh database, folder and receiver a test; every process ends with its test."""

import pytest

from harness.kafka import KafkaServer, available_or_skip
from harness.nats import NatsServer
from harness.orders import Broker
from harness.postgres import PostgresServer
from harness.process import Programs
from harness.proxy import Proxy
from harness.rabbitmq import RabbitServer
from harness.receiver import Receiver
from harness.stores import PostgresStore, SqliteStore


def _migrated(server, folder):
    """A database with the present schema, as the template of the tests' own."""
    name = server.create_database()
    Programs(folder).run("migrate", "--database", server.url(name)).ok()
    return name


@pytest.fixture(scope="session")
def shared_server():
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def template(shared_server, tmp_path_factory):
    return _migrated(shared_server, tmp_path_factory.mktemp("template"))


@pytest.fixture
def empty_database(shared_server):
    """A PostgreSQL database without deliverd's schema."""
    name = shared_server.create_database()
    yield PostgresStore(shared_server, name)
    shared_server.drop_database(name)


@pytest.fixture
def postgres(shared_server, template):
    name = shared_server.create_database(template)
    yield PostgresStore(shared_server, name)
    shared_server.drop_database(name)


@pytest.fixture(scope="session")
def own_server():
    """A second server, for the tests that restart it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def restartable(own_server, tmp_path):
    name = _migrated(own_server, tmp_path)
    yield PostgresStore(own_server, name)
    own_server.drop_database(name)


@pytest.fixture(scope="session")
def kafka():
    """A Kafka broker that makes no topics by itself: kafka.create_topic(name)."""
    available_or_skip()
    with KafkaServer() as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq():
    with RabbitServer() as server:
        yield server


@pytest.fixture
def rabbit(rabbitmq):
    """The URL of a virtual host of the test's own."""
    vhost = rabbitmq.create_vhost()
    yield rabbitmq.url(vhost)
    rabbitmq.drop_vhost(vhost)


@pytest.fixture(scope="session")
def nats():
    """A NATS server with JetStream."""
    with NatsServer() as server:
        yield server


@pytest.fixture
def nats_server(nats):
    """The same, for files that need the name for the client's module."""
    return nats


@pytest.fixture
def sqlite(tmp_path, programs):
    store = SqliteStore(tmp_path / "store.db")
    programs.run("migrate", "--database", store.url).ok()
    return store


@pytest.fixture(params=["postgres", "sqlite"])
def store(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def programs(tmp_path):
    programs = Programs(tmp_path)
    yield programs
    programs.end_all()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def broker():
    broker = Broker()
    yield broker
    broker.close()


@pytest.fixture
def proxy(shared_server):
    proxy = Proxy(shared_server.port)
    yield proxy
    proxy.close()
