"""No file imports another that, by way of others, imports it: also where the import is for type checkers alone."""

from __future__ import annotations

from tests.structure.sources import imports, modules


def circles() -> list[list[str]]:
    """Groups of modules that import each other in a circle (Tarjan's strongly connected components)."""
    # Without the generated modules: codecs.py imports them by name, and `versions` has no imports.
    names = [name for name in modules() if not name.startswith("kafka_wire.generated.")]
    graph = {name: sorted(imports(name) & {*names}) for name in names}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            component = []
            while True:
                component.append(stack.pop())
                if component[-1] == name:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def test_no_circle() -> None:
    assert not circles(), "\n".join(" ↔ ".join(each) for each in circles())
