"""Compaction: when a page is too full, which plan shortens it, and how the plan is applied."""
