"""How long what is done is kept, and that it leaves in time."""
