"""Runs a command with a PostgreSQL server of its own:

    python -m harness.with_postgres -- COMMAND…

exports DELIVERD_TEST_POSTGRES_URL (a superuser's, to the database `postgres`) and answers with the
command's exit status. The server is stopped and removed whatever happens to the command.
"""

import os
import signal
import subprocess
import sys

from harness.postgres import PostgresServer


def _end(number, _frame):
    raise SystemExit(128 + number)


def main(arguments):
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments:
        print("usage: python -m harness.with_postgres -- COMMAND…", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    with PostgresServer() as server:
        environment = os.environ | {"DELIVERD_TEST_POSTGRES_URL": server.url()}
        with subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *arguments], env=environment) as command:
            try:
                status = command.wait()
            except BaseException:
                command.terminate()
                raise
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
