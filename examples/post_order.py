#!/usr/bin/env python3
"""Posts an order until its result is known: while it is unknown whether the order was stored, it sends the same bytes again
with the same key. deliverd stores the order once.

    post_order.py http://127.0.0.1:8080 order.json

Prints the answer. Exit status 0: accepted, now or before; 1: refused; 2: wrong usage; 3: still unknown after the last
attempt: run it again later with the same file.
"""

import http.client
import json
import sys
import time
import urllib.error
import urllib.request

ATTEMPTS = 8
TIMEOUT_SECONDS = 10
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30


def post(base, body, key):
    """Returns status and text of the answer, or status 0 if there was none."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    request = urllib.request.Request(f"{base}/api/v1/orders", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[2], "rb") as file:
        body = file.read()
    key = json.loads(body)["idempotency_key"]  # chosen when the order was written, not at each attempt
    wait = FIRST_WAIT_SECONDS
    for attempt in range(1, ATTEMPTS + 1):
        status, text = post(sys.argv[1], body, key)
        if status in (200, 201):
            print(text)
            return 0
        if 400 <= status < 500:
            print(text, file=sys.stderr)
            return 1
        print(f"attempt {attempt}: {status or 'no answer'}: {text}", file=sys.stderr)
        if attempt < ATTEMPTS:
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
    return 3


if __name__ == "__main__":
    sys.exit(main())
