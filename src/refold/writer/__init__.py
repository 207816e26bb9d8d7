"""A model that puts a span in words: what it is asked, what it is shown, what is accepted."""
