"""Documents of which a script writes some sections anew and leaves the others as they stand."""

from collections.abc import Mapping


def sections_of(text: str) -> dict[str, str]:
    """Return the sections of a Markdown text by their `##` headings, each with its heading."""
    parts = text.split("\n## ")[1:]
    return {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in parts}


def renewed(introduction: str, before: str, written: Mapping[str, str], lacking: Mapping[str, str]) -> str:
    """Return a document: `written` sections in place of what stood under their headings in `before`.

    What is new comes behind the section that it follows in `lacking`, which has every section that the script can
    write, in order, with the text for when there never was one.
    """
    found = sections_of(before)
    order = list(found)
    place = 0
    for heading in lacking:
        if heading not in found:
            order.insert(place, heading)
        place = order.index(heading) + 1
    texts = {**lacking, **found, **written}
    return "\n".join([introduction, *(texts[heading] for heading in order)])
