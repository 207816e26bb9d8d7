"""Types of the parts that a caller may bring: stores, writers, strategies, listeners and the like.

    from refold.types import Answer, Request

    def writer(request: Request) -> Answer: ...

Types of results are in `refold` itself; `refold.register` registers a caller's parts by name.
"""

from refold.artifacts.select import Judge
from refold.artifacts.stub import Describer, Summarizer
from refold.compaction.compactor import Hook, Veto
from refold.compaction.native import NativeCaller, NativeRequest
from refold.core.model import Edit, Hide, Replace, Summarize
from refold.core.plan import Ask
from refold.dialects.protocol import Dialect
from refold.engine.file_refresh import Permitted
from refold.engine.log_reader import Filters
from refold.log.notices import Listener, NoticeName
from refold.memory.external_vectors import VectorStore
from refold.search.embedders import Embedder
from refold.stores.protocol import Store
from refold.strategies.brief import Brief, Strategy
from refold.system.disk import Moment
from refold.tokens.counter import Count, Counter
from refold.writer.asker import Answer, Request, Writer

__all__ = [
    "Answer",
    "Ask",
    "Brief",
    "Count",
    "Counter",
    "Describer",
    "Dialect",
    "Edit",
    "Embedder",
    "Filters",
    "Hide",
    "Hook",
    "Judge",
    "Listener",
    "Moment",
    "NativeCaller",
    "NativeRequest",
    "NoticeName",
    "Permitted",
    "Replace",
    "Request",
    "Store",
    "Strategy",
    "Summarize",
    "Summarizer",
    "VectorStore",
    "Veto",
    "Writer",
]
