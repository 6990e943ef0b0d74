"""The document around every picture, and text that may come from anyone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, tostring

INK, QUIET, RULE, PAPER = "#1f2328", "#59636e", "#d1d9e0", "#ffffff"
SANS = "'DejaVu Sans',Verdana,'Segoe UI',Arial,sans-serif"
MONO = "'DejaVu Sans Mono',Menlo,Consolas,monospace"
# What a letter of the monospaced face is wide, as a part of its size.
MONO_WIDTH = 0.602


def clean(text: str) -> str:
    """The text with one replacement character for each that XML cannot hold or that would not be seen."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def cells(text: str) -> int:
    """How many columns of a monospaced face the text takes at most: two for each wide letter."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


def shortened(text: str, columns: int) -> str:
    """The cleaned text within so many columns: the beginning and the end, which tell ids apart, and `…` between."""
    text = clean(text)
    if cells(text) <= columns:
        return text
    tail = _within(text[::-1], (columns - 1) // 3)[::-1]
    return f"{_within(text, columns - 1 - cells(tail))}…{tail}"


def begun(text: str, columns: int) -> str:
    """The cleaned beginning of a sentence, within so many columns, and `…` where there is more."""
    text = clean(text)
    return text if cells(text) <= columns else f"{_within(text, columns - 1).rstrip()}…"


def _within(text: str, columns: int) -> str:
    end = 0
    while end < len(text) and cells(text[: end + 1]) <= columns:
        end += 1
    return text[:end]


def number(value: float) -> str:
    """A coordinate: to a tenth of a pixel, the same text for the same place."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def document(width: float, height: float, title: str, description: str, style: str) -> Element:
    """An `<svg>` of that size in pixels, with the title and description that a screen reader says first."""
    root = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": number(width),
            "height": number(height),
            "viewBox": f"0 0 {number(width)} {number(height)}",
            "role": "img",
            "aria-labelledby": "title description",
        },
    )
    SubElement(root, "title", {"id": "title"}).text = clean(title)
    SubElement(root, "desc", {"id": "description"}).text = clean(description)
    SubElement(root, "style").text = style
    SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": PAPER})
    return root


def add(parent: Element, tag: str, text: str | None = None, **attributes: str | float) -> Element:
    """One element more. Names take `_` for `-`, and `class_` is `class`; numbers are coordinates."""
    written = {
        name.rstrip("_").replace("_", "-"): number(value) if isinstance(value, int | float) else clean(value)
        for name, value in attributes.items()
    }
    element = SubElement(parent, tag, written)
    if text is not None:
        element.text = clean(text)
    return element


def points(corners: Iterable[tuple[float, float]]) -> str:
    """Corners as a polygon's `points`."""
    return " ".join(f"{number(x)},{number(y)}" for x, y in corners)


def written(root: Element) -> str:
    """The document's text, one element a line, always in the same bytes."""
    return re.sub(
        r"(</?(?:g|svg)[^>]*>|/>|</(?:text|title|desc|style|path)>)", "\\1\n", tostring(root, encoding="unicode")
    )
