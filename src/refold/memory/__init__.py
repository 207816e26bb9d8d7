"""What outlives a conversation. `MemoryFiles` is the memory tool: files under `/memories`; entries
are opened by `refold.open_memory`."""

from refold.memory.files.commands import BlamedLine, FileAnswer, FileChange, FileLimits, FileVersion
from refold.memory.files.files import MemoryFiles

__all__ = ["BlamedLine", "FileAnswer", "FileChange", "FileLimits", "FileVersion", "MemoryFiles"]
