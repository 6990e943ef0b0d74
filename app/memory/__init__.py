"""Memory: what agents remember, found again by meaning, by words, or by both."""
