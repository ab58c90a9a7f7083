"""Turns a matplotlib figure into SVG that lives inside an HTML page: themed, titled, with names of its own."""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Mapping
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"

# matplotlib draws with these colours; the page's style sheet says what they are in light and in dark.
INK, MUTED, RULE, CARD, PALE = "#0000a1", "#0000a2", "#0000a3", "#0000a4", "#0000a5"
LABELS = ("#0000c1", "#0000c2", "#0000c3", "#0000c4")
SERIES = ("#0000b1", "#0000b2", "#0000b3", "#0000b4", "#0000b5", "#0000b6")
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    CARD: "--card",
    PALE: "--pale",
    **{color: f"--s{index}" for index, color in enumerate(SERIES, 1)},
    **dict(zip(LABELS, ("--reinforcing", "--mixed", "--boundary", "--pale"), strict=True)),
}

# text stays text (it can be searched, read aloud and takes the page's font); "$" in a model's name is no formula.
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "font.family": "DejaVu Sans",
    "font.size": 12.5,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 12,
    "axes.linewidth": 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 12,
    "ytick.labelsize": 13,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "grid.color": RULE,
    "grid.linewidth": 1,
}

_numbers = itertools.count(1)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
# Marks that reorder text would also reorder the label beside it.
_BIDI = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def plain(name: str, length: int = 40) -> str:
    """Returns a name fit for a chart: one line, no control or direction marks, cut in the middle when long."""
    name = " ".join(_BIDI.sub("", _CONTROL.sub("", name)).split())
    if len(name) <= length:
        return name
    half = (length - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure; width and height in CSS pixels."""
    figure = Figure(figsize=(width / 72, height / 72))
    figure.patch.set_alpha(0)
    return figure


def to_svg(figure: Figure, title: str, tips: Mapping[str, str] | None = None, css_class: str = "") -> Markup:
    """Returns the figure as an <svg> element to be put into a page.

    Args:
        figure: the drawing; its colours are those of this module.
        title: what the drawing shows, for those who can't see it.
        tips: gid of an artist -> the text shown while the pointer rests on it.
        css_class: class of the element.
    """
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a glyph that matplotlib's own font lacks; the page's font has it
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    prefix = f"c{next(_numbers)}-"
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith("}metadata") or (child.tag.endswith("}style")):
                parent.remove(child)
    for element in root.iter():
        _rename(element, prefix)
        tip = (tips or {}).get(element.get("id", "").removeprefix(prefix))
        if tip:
            note = ElementTree.Element(f"{{{_SVG}}}title")
            note.text = _CONTROL.sub("", tip)
            element.insert(0, note)
    heading = ElementTree.Element(f"{{{_SVG}}}title")
    heading.text = _CONTROL.sub("", title)
    root.insert(0, heading)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("class", f"chart {css_class}".strip())
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    # Serialised by the XML library, which escapes all text; nothing is put into the markup by hand.
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _rename(element: ElementTree.Element, prefix: str) -> None:
    """Gives ids and what refers to them a prefix of this drawing, and colours their CSS variables."""
    for name, value in list(element.attrib.items()):
        if name == "id":
            value = prefix + value
        elif value.startswith("#") and name in ("href", f"{{{_XLINK}}}href"):
            value = f"#{prefix}{value[1:]}"
        value = value.replace("url(#", f"url(#{prefix}")
        if name == "style":
            for color, variable in _VARIABLES.items():
                value = value.replace(color, f"var({variable})")
            value = re.sub(r"font: ([\d.]+px) [^;]*", r"font-size: \1", value)
            value = re.sub(r"font-family: [^;]*;?", "", value)
        element.set(name, value)


def settings() -> matplotlib.RcParams:
    """Returns a context in which figures are drawn in this module's style."""
    return matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE})
