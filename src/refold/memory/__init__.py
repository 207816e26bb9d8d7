"""What outlives a conversation. `MemoryFiles` is the memory tool: files under `/memories`; entries
are opened by `refold.open_memory`."""

from refold.memory.files.files import MemoryFiles
from refold.memory.files.values import (
    BlamedLine,
    FileAnswer,
    FileChange,
    FileLimits,
    FileVersion,
)

__all__ = ["BlamedLine", "FileAnswer", "FileChange", "FileLimits", "FileVersion", "MemoryFiles"]
