"""A running `deliverd serve` and requests to it."""

import hashlib
import re

from harness.ports import free_port
from harness.stores import write_config
from harness.waiting import wait_for
from harness.web import get

TOKENS = {"vera": "viewer", "otto": "operator", "ada": "admin"}  # who may do what in start_with_tokens()


def token(name):
    return f"token-of-{name}"


def auth_section():
    return {"tokens": [{"name": name, "role": role, "sha256": hashlib.sha256(token(name).encode()).hexdigest()}
                       for name, role in TOKENS.items()]}


def start_with_tokens(programs, folder, database_url, **sections):
    """A service without lanes: vera is a viewer, otto an operator, ada an admin."""
    port = free_port()
    config = write_config(folder, None, database={"url": database_url}, server={"port": port}, auth=auth_section(),
                          **sections)
    return Service(programs, config, port)


def start_without_lanes(programs, folder):
    """A service without auth on its own SQLite file."""
    port = free_port()
    config = write_config(folder, None, database={"url": f"sqlite:{folder}/orders.db"}, server={"port": port})
    return Service(programs, config, port)


class Service:
    def __init__(self, programs, config, port, until_ready=True, **how):
        """`how` are further arguments of Programs.start: env, failpoints. If the process may die before it is ready, this does
        not wait."""
        self.base = f"http://127.0.0.1:{port}"
        self.process = programs.start("serve", "--config", config, **how)
        if until_ready:
            wait_for(self._ready, 20, lambda: f"serve to be ready: {self.process.stderr[-3000:]}")

    def _ready(self):
        assert self.process.alive(), f"serve ended with {self.process.status()}: {self.process.stderr[-3000:]}"
        return self.get("/readyz").status == 200

    def get(self, path, token=None, **more):
        return get(self.base + path, headers={"Authorization": f"Bearer {token}"} if token else None, **more)

    def metrics(self, token=None):
        """Sample → value."""
        samples = {}
        for line in self.get("/metrics", token).text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def total(self, pattern):
        """The sum of all samples whose name and labels match."""
        return sum(value for name, value in self.metrics().items() if re.search(pattern, name))
