"""Mutants of the package: small changes to its source, made by cosmic-ray's operators.

A mutant is (path, operator, changed source). What is left out by rule is in the head of
benchmarks/mutation.py.
"""

import ast
import difflib
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "localconformal"
BITWISE = {"BitAnd", "BitOr", "BitXor", "LShift", "RShift"}


def is_wanted(operator):
    """Not one that needs arguments, and none that any float refuses."""
    parts = operator.rpartition("/")[2].split("_")
    if parts[0] == "ReplaceBinaryOperator":
        return (parts[1] in BITWISE) == (parts[2] in BITWISE)
    if parts[0] == "ReplaceUnaryOperator":
        return parts[2] != "Invert"
    return parts[0] not in ("VariableReplacer", "VariableInserter")


OPERATORS = {name: get_operator(name)() for name in operator_names() if is_wanted(name)}


def modules(package):
    """Files of a package, or the one file of a module."""
    single = SOURCE / f"{package}.py"
    return [single] if single.exists() else sorted((SOURCE / package).glob("*.py"))


def left_out(source):
    """Spans ((line, column), (line, column)) in which no change can matter."""
    for node in ast.walk(ast.parse(source)):
        found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.Raise):
            found.append(node.exc)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            found.append(node)
        for part in filter(None, found):
            yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def places(path):
    """Place in the file -> its changes (operator, occurrence)."""
    source, found, seen = path.read_text(encoding="utf-8"), defaultdict(list), Counter()
    spans = list(left_out(source))
    for node in ast_nodes(get_ast(source)):
        for name, operator in OPERATORS.items():
            for start, _ in operator.mutation_positions(node):
                if not any(first <= start < last for first, last in spans):
                    found[start].append((name, seen[name]))
                seen[name] += 1
    return found


def mutate(path, operator, occurrence):
    """The changed source, or None where the change is no Python or no change."""
    source = path.read_text(encoding="utf-8")
    changed = MutationVisitor.mutate_code(source, OPERATORS[operator], occurrence)
    try:
        same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
    except SyntaxError:
        return None
    return None if same else changed


def draw(package, count, seed):
    """Up to ``count`` mutants of a package, and how many places and changes there are."""
    rng = np.random.default_rng(seed)
    found = [
        [(path, *change) for change in rng.permutation(changes).tolist()]
        for path in modules(package)
        for changes in places(path).values()
    ]
    order = rng.permutation(len(found))
    rounds = max(map(len, found))
    queue = (found[i][k] for k in range(rounds) for i in order if k < len(found[i]))
    drawn = []
    for path, operator, occurrence in queue:
        if len(drawn) < count and (source := mutate(path, operator, int(occurrence))):
            drawn.append((path, operator, source))
    return drawn, {"places": len(found), "changes": sum(map(len, found))}


def told(path, operator, source):
    """A mutant in words: its module, line, and that line before and after."""
    lines = path.read_text(encoding="utf-8").splitlines(), source.splitlines()
    diff = [line for line in difflib.ndiff(*lines) if line[:2] in ("- ", "+ ")]
    before = " ".join(line[2:].strip() for line in diff if line[0] == "-")
    after = " ".join(line[2:].strip() for line in diff if line[0] == "+")
    number = next(i for i, pair in enumerate(zip(*lines, strict=False), 1) if pair[0] != pair[1])
    record = {"module": path.relative_to(SOURCE).as_posix(), "line": number}
    return {**record, "operator": operator.rpartition("/")[2], "before": before, "after": after}
