"""Content too large for a page: stored verbatim, listed, selected, searched, cleaned up."""
