"""README and docs as data: fenced blocks, the commands in them, and comparison with real output."""

import re
import subprocess
from dataclasses import dataclass

from harness.process import ROOT
from harness.waiting import wait_for

ANSWER_DEADLINE_SECONDS = 15
COMMAND_DEADLINE_SECONDS = 240
SAMPLE_HASH = "<64 hex digits, from deliverd token new>"  # shown in place of a token's hash; a file with it is invalid
VARIES = "…"  # replaces what differs each time in a shown answer


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def with_hashes(config):
    """A shown configuration, with a real hash in place of each sample."""
    return config.replace(SAMPLE_HASH, "ab" * 32)


def blocks(path, language):
    """The fenced blocks of this language ("": of none)."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text_of(path), re.MULTILINE | re.DOTALL)
    found = [body for name, body in fenced if name == language]
    assert found, f"{path} has no {language or 'plain'} block"
    return found


@dataclass
class Exchange:
    """A command of a `console` block and its shown output."""

    command: str
    shown: str


def exchanges(path):
    """The commands of all `console` blocks, in order. A command begins with "$ " and continues over further lines while a
    quote is open."""
    found = []
    for block in blocks(path, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines(keepends=True)
            while command.count("'") % 2:
                command += shown.pop(0)
            found.append(Exchange(command, "".join(shown)))
    assert found, f"{path} shows no command"
    return found


def without_json_space(text):
    """The text without space between JSON tokens; strings and numbers stay as written."""
    return "".join(part if part.startswith('"') else re.sub(r"\s+", "", part)
                   for part in re.split(r'("(?:[^"\\]|\\.)*")', text))


def is_as_shown(text, shown):
    return re.fullmatch('[^"]+'.join(map(re.escape, shown.split(VARIES))), text) is not None


def is_body_as_shown(body, shown):
    """Compares JSON without regard to space, anything else by its words."""
    if shown.lstrip().startswith("{"):
        return is_as_shown(without_json_space(body), without_json_space(shown))
    return is_as_shown(" ".join(body.split()), " ".join(shown.split()))


def split_http(text):
    """First line, headers and body of a message, as curl -i prints it and the docs show it."""
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    first, *headers = head.splitlines()
    return first, headers, body


def is_http_as_shown(answer, shown):
    """The docs may omit headers, but not invent any."""
    first, headers, body = split_http(answer)
    shown_first, shown_headers, shown_body = split_http(shown)
    return (is_as_shown(first, shown_first) and is_body_as_shown(body, shown_body)
            and all(any(is_as_shown(header, wanted) for header in headers) for wanted in shown_headers))


def type_in(command, base, programs):
    """The output of the command, run in the test's folder, with the service at `base` in place of the default one."""
    typed = command.replace("http://127.0.0.1:8080", base)
    done = subprocess.run(["bash", "-c", typed], cwd=programs.folder, env=programs.environment(), capture_output=True,
                          text=True, timeout=COMMAND_DEADLINE_SECONDS)
    assert done.returncode == 0, f"{typed}\n{done.stdout}{done.stderr}"
    return done.stdout


def check(exchange, base, programs):
    """Repeats the command until it prints what is shown: sending an order takes a moment, and the shown commands may
    all be repeated (but a 201 is never repeated)."""
    said = []

    def matches():
        said.append(type_in(exchange.command, base, programs))
        is_same = is_http_as_shown if exchange.shown.startswith("HTTP/") else is_body_as_shown
        return is_same(said[-1], exchange.shown)

    wait_for(matches, ANSWER_DEADLINE_SECONDS,
             lambda: f"{exchange.command}shown:\n{exchange.shown}\nfirst:\n{said[0]}\nlast:\n{said[-1]}")
