"""Certificates, made by the command openssl."""

import subprocess

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Authority:
    """Issues certificates for 127.0.0.1 and localhost that are good for a day."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.ca_file = folder / "ca.pem"
        self._openssl("req", "-x509", *KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "1", "-subj",
                      "/CN=tests' authority")
        (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")

    def issue(self, name):
        """The paths of NAME.pem and NAME.key."""
        self._openssl("req", *KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                      "-days", "1", "-out", f"{name}.pem", "-extfile", "names")
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, cwd=self.folder, capture_output=True)
