"""Whole stored conversations: list, copy, export, import, verify, scan, delete. No Context
needed."""
