"""Validates real answers against the OpenAPI document that the service serves."""

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

ROOT = "urn:deliverd:openapi"


def pointer(*steps):
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


class Document:
    def __init__(self, document):
        self.document = document
        self.registry = Registry().with_resource(ROOT, Resource(contents=document, specification=DRAFT202012))
        self.seen = {}  # operationId → the statuses checked

    def operation(self, method, path):
        return self.document["paths"][path][method.lower()]

    def documented(self, method, path):
        return {int(status) for status in self.operation(method, path)["responses"]}

    def _resolve(self, place):
        """The value at a path (a list of steps), with $ref resolved, and its real path."""
        value = self.document
        for step in place:
            value = value[step]
        if "$ref" in value:
            return self._resolve([step.replace("~1", "/") for step in value["$ref"].removeprefix("#/").split("/")])
        return value, place

    def check(self, method, path, page):
        """Asserts that the document allows `page` for this operation: status, headers, media type and body."""
        operation = self.operation(method, path)
        what = f"{method} {path} {page.status}: {page.text[:300]}"
        assert str(page.status) in operation["responses"], f"an undocumented status: {what}"
        response, place = self._resolve(["paths", path, method.lower(), "responses", str(page.status)])
        for name, header in response.get("headers", {}).items():
            if "$ref" in header:
                header, _ = self._resolve(list(header["$ref"].removeprefix("#/").split("/")))
            assert name in page.headers or not header.get("required"), f"no header {name}: {what}"
            if name in page.headers and header["schema"].get("type") != "integer":
                Draft202012Validator(header["schema"]).validate(page.headers[name])
        media_type = page.headers["Content-Type"].partition(";")[0]
        assert media_type in response["content"], f"an undocumented media type {media_type}: {what}"
        schema = ROOT + "#" + pointer(*place, "content", media_type, "schema")
        value = page.json() if media_type == "application/json" else page.text
        self.validator({"$ref": schema}).validate(value)
        self.seen.setdefault(operation["operationId"], set()).add(page.status)
        return page

    def check_error(self, page, status, code):
        """Asserts that an answer outside all operations has the common error body."""
        assert (page.status, page.json()["error"]["code"]) == (status, code), page.text
        self.validator({"$ref": ROOT + "#/components/schemas/Error"}).validate(page.json())
        assert page.json()["error"]["request_id"] == page.headers["X-Request-Id"]

    def validator(self, schema):
        return Draft202012Validator(schema, registry=self.registry,
                                    format_checker=Draft202012Validator.FORMAT_CHECKER)
