"""What outlives a conversation. `MemoryFiles` is the memory tool: files under `/memories`."""

from refold.memory.files.files import MemoryFiles
from refold.memory.files.values import (
    BlamedLine,
    FileAnswer,
    FileChange,
    FileLimits,
    FileVersion,
)

__all__ = ["BlamedLine", "FileAnswer", "FileChange", "FileLimits", "FileVersion", "MemoryFiles"]
