"""Servers once per worker, a fresh database, folder and receiver per test; every process ends with its test.

Without -n there is one worker, pytest itself. With `-n N --dist load --maxschedchunk 1`, pytest-xdist starts N of them.
No two share a server, so a test may stop or pause its worker's.
"""

import re
from pathlib import Path

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

# Tests that take ten seconds or more. A parallel run starts them first, in this order, so that it does not end with one
# busy worker and idle others. An entry matches every test id that begins with it. A missing entry only costs time.
LONG_TESTS = (
    "test_schemathesis.py",
    "test_spool_size.py",
    "test_events_crash.py::test_relays_and_broker_killed",
    "test_dlq_chaos.py",
    "test_kafka_harness.py::test_settings_kill_pause_and_restart",
    "test_dlq_logins.py::test_a_rotated_password",
    "test_events_failures.py::test_while_a_broker_is_unreachable",
    "test_events_crash.py::test_postgresql_killed",
    "test_harness.py::test_rabbitmq",
    "test_harness.py::test_a_killed_run_takes_its_rabbitmq",
    "test_events_crash.py::test_relays",
    "test_container.py::test_the_image_has_indirect_libraries",
    "test_dlq_resumed.py",
    "test_dlq_property.py",
    "test_dlq_outages.py",
    "test_events_late.py",
)


def pytest_addoption(parser):
    parser.addoption("--matching", metavar="REGEX", type=re.compile, help="run only the tests whose id matches")
    parser.addoption("--failed-tests", metavar="FILE", type=Path, help="write the ids of the failed tests to FILE, one "
                     "per line; `pytest @FILE` runs them again")


def pytest_configure(config):
    if not _is_worker(config) and config.option.failed_tests:
        config.pluginmanager.register(_FailedTests(config.option.failed_tests))


def _is_worker(config):
    """Whether this is a worker of pytest-xdist, not its controller or a serial run."""
    return hasattr(config, "workerinput")


class _FailedTests:
    """Collects the ids. Under pytest-xdist the controller receives the reports of all workers."""

    def __init__(self, path):
        self._path = path
        self._ids = {}  # a dict keeps the order

    def pytest_runtest_logreport(self, report):
        if report.failed:  # also in setup or teardown, or because the worker died
            self._ids[report.nodeid] = True

    def pytest_collectreport(self, report):
        if report.failed:
            self._ids[report.nodeid] = True

    def pytest_sessionfinish(self):
        self._path.write_text("".join(f"{test}\n" for test in self._ids), encoding="utf-8")


def pytest_collection_modifyitems(config, items):
    """Leaves out what --matching does. Every worker computes the same order, which pytest-xdist requires."""
    def rank(item):
        return next((place for place, name in enumerate(LONG_TESTS) if item.nodeid.startswith(name)), len(LONG_TESTS))

    matching = config.option.matching
    if matching:
        config.hook.pytest_deselected(items=[item for item in items if not matching.search(item.nodeid)])
        items[:] = [item for item in items if matching.search(item.nodeid)]
    if _is_worker(config):
        items.sort(key=rank)


def _migrated(server, folder):
    """A database with the current schema, as the template for the tests' databases."""
    name = server.create_database()
    Programs(folder).run("migrate", "--database", server.url(name)).ok()
    return name


@pytest.fixture(scope="session")
def shared_server():
    """A server that no test stops."""
    with PostgresServer.never_stopped() as server:
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
    """A Kafka broker that creates no topics by itself: use kafka.create_topic(name)."""
    available_or_skip()
    with KafkaServer() as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq():
    with RabbitServer() as server:
        yield server


@pytest.fixture
def rabbit(rabbitmq):
    """The URL of a virtual host for this test alone."""
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
