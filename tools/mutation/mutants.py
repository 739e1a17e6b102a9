"""The mutants of one C++ source, found in clang's syntax tree, and a source that contains all of them.

A regular expression cannot tell `a < b` from `vector<int>`: of the 403 mutants that universalmutator makes of pipeline/decide.cc,
half do not compile (52 of 100 drawn), and none deletes a statement of two lines. The tree has every expression with its
place and type.
"""

import collections
import dataclasses
import json
import re
import subprocess
import sys

sys.setrecursionlimit(20_000)  # of the walk through a tree

NEXT_OPERATORS = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
                  "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"], "+=": ["-="], "-=": ["+="], "*=": ["/="],
                  "/=": ["*="]}
COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
OTHER_FUNCTION = {"min": "max", "max": "min", "any_of": "all_of", "all_of": "any_of", "none_of": "any_of"}
MOST_ENUMERATORS = 16
TRANSPARENT = {"ImplicitCastExpr", "ExprWithCleanups", "MaterializeTemporaryExpr", "CXXBindTemporaryExpr"}
# Case labels and template arguments must be constants; the others are written elsewhere or are not code.
SKIPPED = {"ConstantExpr", "StaticAssertDecl", "EnumDecl", "CXXDefaultArgExpr", "CXXDefaultInitExpr", "StringLiteral"}
CALLS = {"CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr"}
DELETABLE = CALLS | {"BinaryOperator", "CompoundAssignOperator", "UnaryOperator", "CXXRewrittenBinaryOperator"}
JUMPS = {"BreakStmt", "ContinueStmt"}
# Text for people, memory reserved in advance, and points where tests crash the program.
NOISE = re.compile(r"(\w+(\.|->|\(\)))*log_?(\.|->)(debug|info|warn|error)\(|fmt::format|failpoint\(|[\w.>-]+\.reserve\(")
MESSAGE = re.compile(r'"[^"\n]* [^"\n]*"')
NOTHING = {"{}", "std::nullopt", "nullptr", "0", '""'}
TOKENS = re.compile(r'("(?:\\.|[^"\\])*"|(?<![0-9])\'(?:\\.|[^\'\\])*\')|//[^\n]*|/\*.*?\*/|\s+', re.DOTALL)


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    """`source[begin:end]` becomes `text`. `form` says how both fit into one program (see `switchable`)."""

    begin: int
    end: int
    text: str
    form: str = "value"
    constant: bool = False  # the compiler evaluates it: it cannot depend on a variable

    def of(self, source):
        return source[:self.begin] + self.text + source[self.end:]

    def lines(self, source):
        """The first line's number; the original and the changed lines, each joined to one line."""
        first, last = source.rfind("\n", 0, self.begin) + 1, source.find("\n", self.end)
        before, after = source[first:last], source[first:self.begin] + self.text + source[self.end:last]
        return source.count("\n", 0, self.begin) + 1, one_line(before), one_line(after)


def one_line(code):
    return TOKENS.sub(lambda token: token.group(1) or " ", code).strip()


def readable(code):
    return code.encode("latin-1").decode("utf-8", "replace")


def read_source(path):
    """As many characters as bytes, because clang counts bytes."""
    return path.read_bytes().decode("latin-1")


def tree_of(command, path):
    """The declarations of our namespace visible in `path`, headers included."""
    dump = subprocess.run([*command, "-fsyntax-only", "-Xclang", "-ast-dump=json", "-Xclang", "-ast-dump-filter=deliverd",
                           str(path)], capture_output=True, check=True).stdout.decode("latin-1")
    decoder, at, trees = json.JSONDecoder(), dump.find("{"), []
    while at != -1:
        tree, at = decoder.raw_decode(dump, at)
        trees.append(tree)
        at = dump.find("{", at)
    return trees


def locate(node, path, current=None):
    """Sets node["place"], (begin, end) in the file `path`, if the node is written there and not in a macro. clang names
    a file only if it differs from the previous location's."""
    places = [node.get("loc", {}), *(node.get("range", {}).get(end, {}) for end in ("begin", "end"))]
    plain = []
    for place in places:
        for part in (place, place.get("spellingLoc", {}), place.get("expansionLoc", {})):
            current = part.get("file", current)
        plain.append((current, place))
    (begin_file, begin), (end_file, end) = plain[1:]
    if begin_file == end_file == path and "offset" in begin and "offset" in end:
        node["place"] = (begin["offset"], end["offset"] + end["tokLen"])
    for child in node.get("inner", ()):
        current = locate(child, path, current)
    return current


def enums_in(node, found):
    if node.get("kind") == "EnumDecl" and "name" in node:
        found[node["name"]] = [child["name"] for child in node.get("inner", ()) if child["kind"] == "EnumConstantDecl"]
    for child in node.get("inner", ()):
        enums_in(child, found)


def core(node):
    while node.get("kind") in TRANSPARENT and len(node.get("inner", ())) == 1:
        node = node["inner"][0]
    return node


class Walk:
    """Collects the mutants of a tree."""

    def __init__(self, source, enums):
        self.source, self.enums, self.found = source, enums, set()
        self.deduced = False  # in a lambda whose result is what it returns

    def text(self, node):
        return self.source[slice(*node["place"])] if "place" in node else ""

    def add(self, node, text, form="value", constant=False):
        if "place" in node and one_line(text) != one_line(self.text(node)):
            self.found.add(Mutant(*node["place"], one_line(text), form, constant))

    def visit(self, node, constant=False, decides=False):
        """`decides`: the node is a condition, which is replaced by true and false anyway."""
        kind = node.get("kind", "")
        if kind in SKIPPED or node.get("explicitlyDefaulted") or (node.get("isImplicit") and kind.endswith("Decl")):
            return
        if "place" in node and kind.endswith("Expr") and NOISE.match(self.text(node)):
            return
        constant = constant or (kind == "VarDecl" and bool(node.get("constexpr")))
        if kind in TRANSPARENT or kind == "ParenExpr":
            for child in node.get("inner", ()):
                self.visit(child, constant, decides)
            return
        handler = getattr(self, f"visit_{kind}", None)
        children = node.get("inner", []) if handler is None else handler(node, constant, decides)
        for child in children:
            self.visit(child, constant)

    # A handler adds mutants of its node and returns the children still to visit.

    def condition(self, node, constant, *values):
        if core(node).get("kind") != "CXXBoolLiteralExpr":
            for value in values:
                self.add(node, value, "condition", constant)
        self.visit(node, constant, decides=True)

    def visit_IfStmt(self, node, constant, _):
        at = bool(node.get("hasInit")) + bool(node.get("hasVar"))
        inner = node["inner"]
        if not node.get("isConstexpr"):
            if not node.get("hasVar"):
                self.condition(inner[at], constant, "true", "false")
            elif not node.get("hasInit"):
                variable = inner[at - 1]["inner"][0].get("name")
                self.add(inner[at - 1], f"{self.text(inner[at - 1])}; false && bool({variable})", "declaration", constant)
        branches = inner[at + 1:]
        if node.get("hasElse"):
            for branch in branches:
                self.statement(branch)
        elif branches[0]["kind"] == "CompoundStmt" and len(branches[0].get("inner", ())) == 1:
            branches = branches[0]["inner"]  # to delete the only statement is to make the condition false
        return inner[:at] + branches

    def visit_ConditionalOperator(self, node, constant, _):
        self.condition(node["inner"][0], constant, "true", "false")
        return node["inner"][1:]

    def loop(self, node, condition, constant):
        if condition.get("kind") and not node.get("hasVar"):
            self.condition(condition, constant, "false")
        self.statement(node["inner"][-1])
        return [child for child in node["inner"] if child is not condition]

    def visit_WhileStmt(self, node, constant, _):
        return self.loop(node, node["inner"][-2], constant)

    def visit_ForStmt(self, node, constant, _):
        return self.loop(node, node["inner"][2], constant)

    def visit_DoStmt(self, node, constant, _):
        self.condition(node["inner"][1], constant, "false")
        self.statement(node["inner"][0])
        return node["inner"][:1]

    def visit_CXXForRangeStmt(self, node, constant, _):
        self.statement(node["inner"][-1])
        ranges = [child for child in node["inner"] if child.get("kind") == "DeclStmt"][:1]
        return [*ranges, node["inner"][-1]]  # not what the compiler adds: begin, end, !=, ++

    def visit_CaseStmt(self, node, constant, _):
        if "place" in node and "place" in node["inner"][-1]:
            self.found.add(Mutant(node["place"][0], node["inner"][-1]["place"][0], "", "label", True))
        return self.visit_DefaultStmt(node, constant, _)

    def visit_DefaultStmt(self, node, constant, _):
        self.statement(node["inner"][-1])
        return node["inner"][-1:]

    def visit_CompoundStmt(self, node, constant, _):
        for child in node.get("inner", ()):
            self.statement(child)
        return node.get("inner", [])

    def visit_LambdaExpr(self, node, constant, _):
        before, self.deduced = self.deduced, "->" not in self.text(node).partition("{")[0]
        for child in node["inner"]:
            if child["kind"] != "CXXRecordDecl":  # it has the body as well
                self.visit(child, constant)
        self.deduced = before
        return []

    def statement(self, node):
        """Deletes a statement, in a block or as the whole of a branch."""
        inside = core(node)
        kind, text = inside.get("kind"), self.text(node)
        if kind in DELETABLE and not NOISE.match(text) and not self.is_message(inside, text):
            self.add(node, "void()", "effect")
        elif kind in JUMPS or (kind == "ReturnStmt" and not inside.get("inner")):
            self.add(node, "void()", "jump")

    @staticmethod
    def is_message(node, text):
        """Whether it assigns or appends a text for people."""
        return node["kind"] not in ("CallExpr", "CXXMemberCallExpr") and bool(MESSAGE.search(text))

    def visit_ReturnStmt(self, node, constant, _):
        value = (node.get("inner") or [{}])[0]
        type_name, text = value.get("type", {}).get("qualType", ""), self.text(value)
        if type_name == "bool":
            if core(value).get("kind") in CALLS | {"DeclRefExpr", "MemberExpr"} and not self.operator_of(core(value)):
                self.add(value, f"!({text})", "value", constant)
        elif text and text not in NOTHING and not self.deduced and value.get("valueCategory") == "prvalue":
            if not ("string" in type_name and MESSAGE.search(text)):
                self.add(node, "return {}", "return", constant)
        return node.get("inner", [])

    def operands(self, node):
        """Left, operator and right as written; None if there are not two operands."""
        inner = node.get("inner", [])
        if node["kind"] == "CXXOperatorCallExpr":
            inner = inner[1:]
        if node["kind"] == "CXXRewrittenBinaryOperator":
            while len(inner) == 1:
                inner = inner[0].get("inner", [])
            inner = [child for child in inner if core(child).get("referencedDecl", {}).get("kind") not in
                     ("FunctionDecl", "CXXMethodDecl")]
        inner = sorted((child for child in inner if "place" in child), key=lambda child: child["place"])
        if len(inner) != 2:
            return None
        between = one_line(self.source[inner[0]["place"][1]:inner[1]["place"][0]])
        return inner[0], between, inner[1]

    def operator_of(self, node):
        found = self.operands(node) if node["kind"] in DELETABLE - {"CallExpr", "CXXMemberCallExpr", "UnaryOperator"} else None
        return found[1] if found else ""

    def visit_BinaryOperator(self, node, constant, decides):
        found = self.operands(node) if "place" in node else None
        if not found:
            return node.get("inner", [])
        left, operator, right = found
        if operator in ("&&", "||"):
            self.add(node, f"bool({self.text(left)})", "value", constant)
            if self.operator_of(core(left)) != operator:  # then its left one is dropped there
                self.add(node, f"bool({self.text(right)})", "value", constant)
        for other in NEXT_OPERATORS.get(operator, ()):
            negates = operator in COMPARISONS and other[0] != operator[0]
            if not (negates and decides) and not self.makes_no_sense(node, left, right, operator):
                self.add(node, f"{self.text(left)} {other} {self.text(right)}", "value", constant)
        return [left, right]

    visit_CompoundAssignOperator = visit_BinaryOperator
    visit_CXXRewrittenBinaryOperator = visit_BinaryOperator

    @staticmethod
    def makes_no_sense(node, left, right, operator):
        """Texts can only be joined, instants only subtracted; a different pointer is not a mistake that a test could find."""
        types = [each.get("type", {}) for each in (node, left, right)]
        names = [f"{each.get('qualType', '')} {each.get('desugaredQualType', '')}" for each in types]
        if operator in COMPARISONS:
            return False
        return any("string" in name or "char" in name or "path" in name or "*" in name for name in names) or \
            all("Instant" in name or "time_point" in name for name in names[1:])

    def visit_CXXOperatorCallExpr(self, node, constant, decides):
        name = core(node["inner"][0]).get("referencedDecl", {}).get("name", "")
        if name == "operator()":
            self.other_function(node, node["inner"][1], constant)
        if len(node["inner"]) == 3 and name not in ("operator()", "operator[]"):
            return self.visit_BinaryOperator(node, constant, decides)
        return node["inner"][1:]

    def visit_CallExpr(self, node, constant, _):
        self.other_function(node, node["inner"][0], constant)
        return node["inner"]

    def other_function(self, node, callee, constant):
        name = core(callee).get("referencedDecl", {}).get("name") or core(callee).get("name")
        if name in OTHER_FUNCTION and "place" in node and "place" in callee:
            begin, end = callee["place"]
            there = re.compile(rf"\b{name}\b").sub(OTHER_FUNCTION[name], self.source[begin:end], count=1)
            self.add(node, self.source[node["place"][0]:begin] + there + self.source[end:node["place"][1]], "value", constant)

    def visit_UnaryOperator(self, node, constant, decides):
        if (node["opcode"] == "!" and not decides) or node["opcode"] == "-":
            operand = self.text(node["inner"][0])
            self.add(node, f"bool({operand})" if node["opcode"] == "!" else operand, "value", constant)
        for child in node["inner"]:
            self.visit(child, constant, decides=node["opcode"] == "!")  # without the ! it is negated already
        return []

    def visit_IntegerLiteral(self, node, constant, _):
        found = re.fullmatch(r"([0-9']+)(\w*|\.[0-9]+)", self.text(node))
        if found:
            number = int(found.group(1).replace("'", ""))
            for other in (number + 1, number - 1):
                if other >= 0:
                    self.add(node, f"{other}{found.group(2)}", "value", constant)
        return []

    visit_FloatingLiteral = visit_IntegerLiteral
    visit_UserDefinedLiteral = visit_IntegerLiteral

    def visit_CXXBoolLiteralExpr(self, node, constant, _):
        self.add(node, "false" if self.text(node) == "true" else "true", "value", constant)
        return []

    def visit_DeclRefExpr(self, node, constant, _):
        declared = node.get("referencedDecl", {})
        if declared.get("kind") == "EnumConstantDecl":
            names = self.enums.get(declared.get("type", {}).get("qualType", "").rpartition("::")[2], [])
            if declared["name"] in names and 1 < len(names) <= MOST_ENUMERATORS:
                other = names[(names.index(declared["name"]) + 1) % len(names)]
                before = self.text(node).rpartition("::")[0]
                self.add(node, f"{before}::{other}" if before else other, "value", constant)
        return []


def mutants_of(command, path):
    """The mutants of the source `path`, in the order of their places; `command` compiles it, without input and output."""
    source, enums = read_source(path), {}
    trees = tree_of(command, path)
    walk = Walk(source, enums)
    for tree in trees:
        enums_in(tree, enums)
    for tree in trees:
        locate(tree, str(path))
        walk.visit(tree)
    return sorted(walk.found)


def wrapped(code, numbered):
    """`code` and its mutants as one piece of code; `numbered` are of one place: (number, mutant)."""
    by_form = collections.defaultdict(list)
    for number, mutant in numbered:
        by_form[mutant.form].append((number, mutant.text))

    def choice(form):
        return "".join(f"DELIVERD_MUTANT({number}) ? ({text}) : " for number, text in by_form[form])

    if by_form["value"]:
        code = f"({choice('value')}({code}))"
    if by_form["condition"]:
        code = f"({choice('condition')}bool({code}))"
    if by_form["effect"]:
        code = f"({choice('effect')}void({code}))"
    for number, text in by_form["declaration"]:
        name = re.search(r"bool\((\w+)\)$", text).group(1)
        code = f"{code}; !DELIVERD_MUTANT({number}) && bool({name})"
    for number, _ in by_form["jump"]:
        code = f"if (!DELIVERD_MUTANT({number})) {code}"
    for number, _ in by_form["return"]:
        code = f"if (DELIVERD_MUTANT({number})) return {{}}; else {code}"
    return code


def switchable(source, numbered):
    """The source with every mutant in it: DELIVERD_MUTANT(n) says which one is on. Compiled once, it can be run as each of
    them. Lines keep their numbers."""
    places = collections.defaultdict(list)
    for number, mutant in numbered:
        places[(mutant.begin, -mutant.end)].append((number, mutant))
    order = sorted(places)

    def render(begin, end, at):
        """The text of [begin, end) and the index of the first place behind it."""
        parts = []
        while at < len(order) and order[at][0] < end:
            inside_begin, inside_end = order[at][0], -order[at][1]
            inner, after = render(inside_begin, inside_end, at + 1)
            parts += [source[begin:inside_begin], wrapped(inner, places[order[at]])]
            begin, at = inside_end, after
        return "".join(parts) + source[begin:end], at

    return render(0, len(source), 0)[0]
