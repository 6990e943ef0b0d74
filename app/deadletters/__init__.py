"""Dead letters: work that nobody will try again by itself."""
