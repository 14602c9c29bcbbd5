"""The pictures of the README and docs/, made small: `python -m tests.docs_pictures FROM TO` (make pictures DOCS=1)."""

import sys
from pathlib import Path

from PIL import Image

COLOURS = 256
HIGHEST = 1000
"""Pixels; below it pages repeat themselves."""
CHOSEN = {
    "overview-dark-1440": "console-overview",
    "run-with-a-node-light-1440": "console-run",
    "letters-light-1440": "console-dead-letters",
    "task-dark-1440": "console-task",
    "executions-light-1440": "console",
    "palette-found-dark": "console-palette",
}
"""A picture of the tour → its name in docs/."""


def shrink(source: Path, target: Path) -> int:
    """Fewer colours, no more height than is looked at; returns the bytes that are left."""
    with Image.open(source) as picture:
        cut = picture.convert("RGB").crop((0, 0, picture.width, min(picture.height, HIGHEST)))
        cut.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    return target.stat().st_size


def main(source: Path, target: Path) -> None:
    for name, called in CHOSEN.items():
        size = shrink(source / f"{name}.png", target / f"{called}.png")
        print(f"{called}.png {size // 1024} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
