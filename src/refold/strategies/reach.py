"""How the page says where the rest is: by handle, and by the tool that reads handles.

The tool is named only if the model was given it, because a text on the page must promise nothing
that its reader cannot do. The handle stands there in any case: a person can unfold it. Neighbours:
every strategy that writes a text for the page, `artifacts.intake` for its stubs.
"""

from __future__ import annotations

from refold.core.arguments import has_tool
from refold.core.model import Meta, View

UNFOLD = "refold_unfold"


def unfolder(known: View | Meta) -> str:
    """The tool by which the model reads a handle; empty if it was not given."""
    return UNFOLD if has_tool(known.tools, UNFOLD) else ""


def reach(view: View, handles: str, purpose: str = "") -> str:
    """`; refold_unfold #41 to read it`, or `: #41` where the model has no such tool."""
    if not unfolder(view):
        return f": {handles}"
    return f"; {UNFOLD} {handles} {purpose}".rstrip()
