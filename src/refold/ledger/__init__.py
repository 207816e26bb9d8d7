"""What an agent did and what is known of it, read by code from its messages: actions, outcomes,
to-dos, the ledger."""
