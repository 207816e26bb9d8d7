"""What is too large for a page: kept whole, listed, selected, searched, cleaned up."""
