"""The types of arguments and results of refold's calls.

    from refold.types import Answer, Request

    def writer(request: Request) -> Answer: ...

Stores, writers, strategies, listeners and the like are yours to write, in these shapes; the rest
are values that calls return. `refold.register` registers your own parts by name.
"""

from refold.artifacts.artifacts import Matches
from refold.artifacts.cleanup import CleanupItem
from refold.artifacts.listing import StoredArtifact
from refold.artifacts.select import Judge, Selected
from refold.artifacts.stub import Describer, Summarizer
from refold.compaction.compactor import Hook, Veto
from refold.compaction.native import NativeCaller, NativeRequest
from refold.core.model import Edit, Hide, Replace, Slot, Span, Summarize
from refold.core.plan import Ask
from refold.dialects.page import PageMessage
from refold.dialects.protocol import Dialect
from refold.engine.file_refresh import Permitted
from refold.engine.log_reader import Filters
from refold.engine.mirror import Mirrored
from refold.engine.rehearsal import Rehearsal
from refold.log.handles import Part, Unfolded
from refold.log.message_history import Trace
from refold.log.message_states import (
    Batch,
    LoggedMessage,
    MessageState,
    StandIn,
    StateChange,
    States,
)
from refold.log.notes import Noted
from refold.log.notices import Listener, NoticeName
from refold.log.restore_points import Difference, Point, Restored
from refold.log.undo import FileChange, FileVersion, Undone
from refold.memory.entry import Forgotten
from refold.memory.extraction import Taken
from refold.memory.journal import MemoryChange
from refold.memory.transfer import ImportedMemories
from refold.memory.vector_stores import VectorStore
from refold.search.embedders import Embedder
from refold.stores.protocol import Store
from refold.strategies.brief import Brief, Strategy
from refold.strategies.importance import Score
from refold.system.disk import Moment
from refold.tokens.counter import Count, Counter
from refold.writer.asker import Answer, Request, Writer

__all__ = [
    "Answer", "Ask", "Batch", "Brief", "CleanupItem", "Count", "Counter", "Describer",
    "Dialect", "Difference", "Edit", "Embedder", "FileChange", "FileVersion", "Filters",
    "Forgotten", "Hide", "Hook", "ImportedMemories", "Judge", "Listener", "LoggedMessage",
    "Matches", "MemoryChange", "MessageState", "Mirrored", "Moment", "NativeCaller",
    "NativeRequest", "Noted", "NoticeName", "PageMessage", "Part", "Permitted", "Point",
    "Rehearsal", "Replace", "Request", "Restored", "Score", "Selected", "Slot", "Span", "StandIn",
    "StateChange", "States", "Store", "StoredArtifact", "Strategy", "Summarize", "Summarizer",
    "Taken", "Trace", "Undone", "Unfolded", "VectorStore", "Veto", "Writer",
]  # fmt: skip
