"""Free TCP ports for servers that bind them later.

A port from the kernel's ephemeral range is not safe: any outgoing connection can take it before the server binds it, and
again while a killed server is down. So these ports lie below that range. Two processes never hand out the same port:
each uses blocks of its own. A block belongs to the process that holds the abstract Unix socket of its name. The kernel
frees that name when the process ends, and each network namespace has its own names, as it has its own ports.
"""

import itertools
import os
import socket
import threading

FIRST_PORT, END_PORT = 10_000, 32_700  # Linux's ephemeral range begins at 32768
BLOCK_PORTS = 100

_lock = threading.Lock()
_claims = []  # keeps the sockets open


def _claim_blocks():
    """Claims a block whenever the last one is used up. Starts at an offset from the process id to avoid collisions."""
    blocks = (END_PORT - FIRST_PORT) // BLOCK_PORTS
    for number in range(blocks):
        block = (os.getpid() + number) % blocks
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0deliverd-test-ports-{block}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        first = FIRST_PORT + block * BLOCK_PORTS
        yield range(first, first + BLOCK_PORTS)


_ports = itertools.chain.from_iterable(_claim_blocks())


def _is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def free_port():
    """A port on which nothing listens. A process gets each port once, so a stopped server keeps its port."""
    with _lock:
        for port in _ports:
            if _is_free(port):
                return port
    raise RuntimeError(f"no free port between {FIRST_PORT} and {END_PORT} is left")
