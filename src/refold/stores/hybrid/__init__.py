"""A store near and a store far, and what makes them the same."""
