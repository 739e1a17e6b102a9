"""A file spool: its commands, and its lines as JSON."""

import json
import subprocess

LATER = 4_000_000_000_000  # no cleanup happens before that


class SpoolFile:
    """One spool, its commands, and its lines as JSON."""

    def __init__(self, programs, receiver, path):
        self._programs, self.endpoint, self.path = programs, f"http://127.0.0.1:{receiver.port}/hooks", path

    def run(self, command, *words, **options):
        return self._programs.run("spool", command, "--file", self.path, *words, **options)

    def add(self, data, *words):
        return self.run("add", "--endpoint", self.endpoint, "--data", data, *words).ok().stdout.strip()

    def retry(self, *words, **options):
        done = self.run("retry", "--allow-private", "--json", *words, **options)
        return json.loads(done.stdout), done.status

    @property
    def entries(self):
        return [json.loads(line) for line in self.path.read_bytes().splitlines()]

    def append(self, *entries):
        """Appends as another program would."""
        lines = "".join(json.dumps(entry) + "\n" for entry in entries)
        subprocess.run(["flock", f"{self.path}.lock", "tee", "-a", self.path], input=lines.encode(), check=True,
                       stdout=subprocess.DEVNULL)

    def exhausted(self, job, payload=None, **more):
        """An entry as it is after the fifth failure."""
        return {"jobId": job, "data": {"hook": {"job": job} if payload is None else payload, "endpoint": self.endpoint},
                "attemptsMade": 5, "maxAttempts": 5, "timestamp": 1_770_000_000_000, "nextRetry": LATER,
                "error": {"message": "HTTP 503", "code": "503"}, "state": "exhausted", "resolvedAt": LATER} | more

    def states(self):
        return {entry["jobId"]: entry["state"] for entry in self.entries}

    def make_due(self):
        """Makes an entry due, edited by hand: other fields stay."""
        entries = [entry | {"nextRetry": 1, "mine": {"kept": True}} for entry in self.entries]
        self.path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
