"""The actions and facts of an agent, found by code in its messages."""
