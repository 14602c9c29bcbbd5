"""Boxes and curves as SVG. Python writes it and no template, for a graph has thousands of values: ten times as fast.

Whatever comes from a tenant goes through `escape`; the formats below are all the markup there is.
"""

from collections.abc import Iterable, Mapping

from django.templatetags.static import static
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from apps.console.dags.drawing import Box

_EDGE = '<path class="edge" id="e{at}" data-edge="{state}" d="{path}">{title}</path>'
_BOX = (
    '<svg class="node{many}" id="b{at}" data-box="{at}" data-first="{first}"{node} data-version="{version}"'
    ' data-state="{state}" x="{x:g}" y="{y:g}" width="112" height="40" tabindex="{tab}" role="button"'
    ' aria-label="{said}"><title>{said}</title>{frame}<text x="11" y="17">{name}</text>{icon}'
    '<text class="sub" x="{line_x}" y="31"{times} data-line="{line}">{line}</text>{foot}</svg>'
)
_ONE = '<rect class="box" x="1" y="1" width="110" height="38" rx="8"/>'
_SEVERAL = (
    '<rect class="stack" x="5" y="5" width="106" height="34" rx="8"/>'
    '<rect class="box" x="1" y="1" width="106" height="35" rx="8"/>'
)
_ICON = '<use class="mini" href="{icons}#{state}" x="10" y="22.5" width="10" height="10"/>'
_FOOT = '<rect class="foot" x="2" y="{y}" height="3" rx="1.5" width="{width:g}"/>'


def edges(found: Iterable[Mapping[str, str]]) -> SafeString:
    """Curves, under the boxes."""
    return mark_safe(  # noqa: S308  each value is escaped or a number
        "".join(
            _EDGE.format(
                at=at,
                state=edge["state"],
                path=edge["path"],
                title=f"<title>{escape(edge['title'])}</title>" if edge["title"] else "",
            )
            for at, edge in enumerate(found)
        )
    )


def boxes(found: Iterable[Box], *, of_run: bool) -> SafeString:
    """Boxes; of a run with icons and feet, which its page changes."""
    icons = static("console/icons.svg")
    return mark_safe("".join(_box(box, icons if of_run else "") for box in found))  # noqa: S308  likewise


def _box(box: Box, icons: str) -> str:
    several = box.many > 1
    times = f' data-since="{box.since.isoformat()}"' if box.since else ""
    times += f' data-until="{box.until.isoformat()}"' if box.until else ""
    return _BOX.format(
        at=box.at,
        many=" many" if several else "",
        first=box.first,
        node="" if several else f' data-node="{escape(box.node_id)}"',
        version=f"{box.version[0]}.{box.version[1]}",
        state=box.state,
        x=box.x,
        y=box.y,
        tab=-1 if box.at else 0,
        said=escape(box.said),
        frame=_SEVERAL if several else _ONE,
        name=escape(box.name),
        icon=_ICON.format(icons=icons, state=box.state) if icons else "",
        line_x=24 if icons else 11,
        times=times,
        line=escape(box.line),
        foot=_FOOT.format(y=33 if several else 36, width=box.foot or 0) if icons else "",
    )
