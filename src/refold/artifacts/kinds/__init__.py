"""The kinds of output text and their most telling lines."""
