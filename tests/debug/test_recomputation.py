"""What is said of values that are computed again."""

from __future__ import annotations

from memory_programs import dag, mlp

import graphc as gx


def test_report_of_a_limit() -> None:
    step = mlp()
    plain, _ = step.ran()
    told = plain.recomputation
    assert told.repetitions == () and told.extra_work == 0 and told.limit_bytes is None
    assert told.natural_bytes == told.planned_bytes == plain.memory.lower_bound_bytes
    limit = plain.memory.peak_bytes // 2
    program, _ = step.ran(memory_limit=limit)
    told = program.recomputation
    assert told.limit_bytes == limit >= told.peak_bytes == program.memory.peak_bytes
    assert told.natural_bytes > told.planned_bytes
    assert 0 < told.extra_work < 1
    (layer,) = told.repetitions
    nodes = program.graph.nodes
    assert layer.times == sum(node.provenance.cause == "recompute" for node in nodes) > 1
    assert layer.bytes >= told.natural_bytes - told.planned_bytes
    assert layer.where.source_line().strip().startswith("layer = wrap(")
    head, line = str(told).splitlines()
    assert head.endswith(" %") and f"the limit {limit:,}; extra work" in head
    assert f"made again {layer.times} times, saves {layer.bytes:,} bytes, costs" in line


def test_report_of_marks() -> None:
    program, _ = mlp(wrap=gx.checkpoint).ran()
    told = program.recomputation
    assert told.limit_bytes is None
    assert told.natural_bytes > told.planned_bytes and told.repetitions and told.extra_work > 0


def test_explain_says_what_is_made_again_and_for_whom() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((64, 64), name="x")
        state, states = x, []
        for _ in range(5):
            state = gx.exp(gx.sin(state @ x))
            states.append(state)
        (slope,) = gx.gradients(gx.sum(state), [x])
    options = gx.Options(optimize=3, cache="off", threads=1)
    natural = gx.Session(graph, options=options).compile([slope], [x]).memory.peak_bytes
    options = gx.Options(optimize=3, cache="off", threads=1, memory_limit=natural * 2 // 3)
    program = gx.Session(graph, options=options).compile([slope], [x])
    found = [program.explain(state) for state in states]
    again = [line for explanation in found for line in explanation.again]
    assert again
    for line in again:
        assert line.startswith("made again in step ")
        assert "test_recomputation.py:" in line and "saves 16,384 bytes, costs" in line
    text = "\n".join(map(str, found))
    assert all(f"    {line}" in text for line in again)


def test_explanations_of_what_runs_late_alone() -> None:
    """Of every value of a random program something is said, whatever has been moved."""
    step = dag(14, 1, gx.checkpoint)
    program, _ = step.ran()
    for node in program.source.nodes:
        for value in node.outputs:
            assert program.explain(value).kernel
