"""Where boxes stand: no two in one place, edges from left to right, large graphs in well under a second. Pure."""

import itertools
import random
import time
from xml.etree import ElementTree

import pytest

from apps.console.dags import svg
from apps.console.dags.drawing import draw
from apps.console.dags.folding import fold
from apps.console.dags.layout import COLUMN, HEIGHT, WIDTH, layers_of, place
from apps.console.dags.nodes import NodeView
from apps.console.dags.words import fitted
from tests.console_ledger import HOSTILE

Edges = list[tuple[int, int]]


def random_edges(count: int, each: int, *, back: int = 40) -> Edges:
    rng = random.Random(count)  # noqa: S311  graphs, no secrets
    return sorted({(max(0, c - rng.randint(1, back)), c) for c in range(1, count) for _ in range(each)})


@pytest.mark.parametrize(
    ("count", "edges"),
    [
        (1, []),
        (3, []),
        (2, [(0, 1)]),
        (6, [(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (0, 5), (5, 3), (0, 3)]),
        (60, random_edges(60, 2)),
        (40, [(0, n) for n in range(1, 40)]),
    ],
)
def test_boxes_do_not_overlap_and_edges_go_right(count: int, edges: Edges) -> None:
    found = place(count, tuple(edges))
    assert len(found.boxes) == count
    for (ax, ay), (bx, by) in itertools.combinations(found.boxes, 2):
        assert abs(ax - bx) >= WIDTH or abs(ay - by) >= HEIGHT
    for parent, child in edges:
        assert found.boxes[child][0] >= found.boxes[parent][0] + COLUMN
    assert all(0 <= x <= found.width - WIDTH and 0 <= y <= found.height - HEIGHT for x, y in found.boxes)
    for (parent, child), path in zip(edges, found.paths, strict=True):
        start, end = found.boxes[parent], found.boxes[child]
        assert path.startswith(f"M{start[0] + WIDTH:g} {start[1] + HEIGHT / 2:g}")
        assert path.endswith(f"{end[0]:g} {end[1] + HEIGHT / 2:g}")


@pytest.mark.parametrize(
    ("count", "edges"),
    [
        (500, random_edges(500, 3)),
        (1000, random_edges(1000, 3)),
        (1000, [(n, n + 1) for n in range(999)] + [(0, n) for n in range(2, 1000)]),
        (300, [(a, b) for a in range(300) for b in range(a + 1, min(300, a + 30))]),
    ],
)
def test_large_graphs_stand_soon_and_are_kept(count: int, edges: Edges) -> None:
    """The second with all its long edges, and the third with 8,000, go straight where bends would cost too much."""
    began = time.process_time()
    first = place(count, tuple(edges))
    took = time.process_time() - began
    print(f"{count} nodes, {len(edges)} edges: {1000 * took:.0f} ms")
    assert took < 5.0
    assert place(count, tuple(edges)) is first


def test_an_empty_graph_is_empty() -> None:
    assert place(0, ()).boxes == ()


def test_folding_keeps_every_node_once_and_makes_no_cycle() -> None:
    wide = [(0, n) for n in range(1, 41)] + [(n, 41) for n in range(1, 41)]
    for count, edges in ((42, wide), (200, random_edges(200, 2)), (900, random_edges(900, 1, back=300))):
        found = fold(count, edges, folded=True)
        assert sorted(itertools.chain(*found.boxes)) == list(range(count))
        layers = layers_of(len(found.boxes), found.edges)
        assert all(layers[parent] < layers[child] for parent, child in found.edges)
        assert sorted(itertools.chain(*found.inner)) == sorted(edges)
    assert len(fold(42, wide, folded=True).boxes) == 3
    assert len(fold(42, wide, folded=True, opened={1}).boxes) == 42
    assert len(fold(42, wide, folded=False).boxes) == 42


def test_a_graph_with_little_alike_is_folded_by_columns() -> None:
    """500 nodes as 20 columns of 25; one that is opened shows its 25 nodes, and the others stay folded."""
    edges = [(25 * c + (r + k) % 25, 25 * (c + 1) + r) for c in range(19) for r in range(25) for k in range(3)]
    found = fold(500, edges, folded=True)
    assert [len(members) for members in found.boxes] == [25] * 20
    assert found.edges == tuple((c, c + 1) for c in range(19))
    opened = fold(500, edges, folded=True, opened={25})
    assert [len(members) for members in opened.boxes] == [25, *[1] * 25, *[25] * 18]


def test_whatever_a_tenant_says_is_escaped() -> None:
    view = NodeView(0, HOSTILE, HOSTILE, "running", (1, 1), HOSTILE, share=0.5)
    other = NodeView(1, HOSTILE, HOSTILE, "failed", (1, 1), HOSTILE)
    drawn = draw(2, [(0, 1)])
    written = svg.boxes(drawn.boxes({0: view, 1: other}, {}), of_run=True) + svg.edges(
        drawn.edges({}, {(0, 1): HOSTILE})
    )
    assert "<img" not in written
    assert written.count("&lt;img") == 17
    assert len(ElementTree.fromstring(f"<svg>{written}</svg>").findall("svg")) == 2  # noqa: S314  our own


def test_words_fit_their_box() -> None:
    assert fitted("short", 15) == "short"
    assert fitted("x" * 16, 15) == "x" * 14 + "…"
    assert len(fitted("日本語日本語日本語日本語", 15)) < 9
