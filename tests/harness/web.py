"""One HTTP request, answered as a value: also the errors, and no connection at all."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass

TIMEOUT_SECONDS = 15


@dataclass
class Page:
    status: int  # 0: no connection
    headers: dict
    text: str

    def json(self):
        return json.loads(self.text)


def get(url, headers=None, method="GET", body=None):
    request = urllib.request.Request(url, headers=headers or {}, method=method, data=body)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return Page(answer.status, dict(answer.headers), answer.read().decode())
    except urllib.error.HTTPError as error:
        return Page(error.code, dict(error.headers), error.read().decode())
    except (OSError, http.client.HTTPException) as error:
        return Page(0, {}, str(error))
