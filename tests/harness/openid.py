"""An OpenID provider inside the test: keys, the tokens they sign, and a server for their public halves."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER, AUDIENCE = "https://id.example/realms/work", "deliverd"
RSA_BITS = 2048


class Key:
    def __init__(self, kid, algorithm="ES256"):
        self.kid = kid
        self.algorithm = algorithm
        self.private = {"RS256": lambda: rsa.generate_private_key(65537, RSA_BITS),
                        "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
                        "EdDSA": ed25519.Ed25519PrivateKey.generate}[algorithm]()

    def jwk(self):
        public = jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.private.public_key(), as_dict=True)
        return public | {"kid": self.kid, "use": "sig", "alg": self.algorithm}

    def token(self, *roles, seconds=600, **claims):
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + seconds,
                  "realm_access": {"roles": list(roles)}} | claims
        return jwt.encode(claims, self.private, self.algorithm, headers={"kid": self.kid})


def key_set(*keys):
    return json.dumps({"keys": [key.jwk() for key in keys]})


class Provider:
    """Serves `body` with `status` at `url`."""

    def __init__(self, *keys, port=0):
        self.body = key_set(*keys)
        self.status = 200
        self.fetches = 0
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                provider.fetches += 1
                body = provider.body.encode()
                self.send_response(provider.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
