"""Jobs: long work that a client asked for, with progress, resumable after a kill."""
