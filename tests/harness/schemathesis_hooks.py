"""What schemathesis cannot know from the OpenAPI document: that the header Idempotency-Key repeats the body's key.

Loaded by schemathesis itself (schemathesis.toml names it).
"""

import re

import schemathesis

KEY = re.compile(r"[^\x00-\x20\x7f-\x9f](?:[^\x00-\x1f\x7f-\x9f]*[^\x00-\x20\x7f-\x9f])?")
HEADER = "Idempotency-Key"


def is_key(value):
    return isinstance(value, str) and 8 <= len(value) <= 64 and KEY.fullmatch(value) is not None


@schemathesis.hook
def before_call(context, case, kwargs):
    """Two valid keys become the same; a wrong or missing one stays as generated."""
    for name, value in list((case.headers or {}).items()):
        if not isinstance(value, (str, bytes)):  # the stateful phase makes numbers, which no header can be
            case.headers[name] = str(value)
    if not isinstance(case.body, dict) or not case.headers:
        return
    key = case.body.get("idempotency_key")
    if is_key(key) and is_key(case.headers.get(HEADER)):
        # In ASCII, because schemathesis measures headers as Latin-1 and the API as UTF-8.
        case.body["idempotency_key"] = case.headers[HEADER] = key.encode("ascii", "replace").decode()
