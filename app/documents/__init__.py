"""Documents: JSON bodies in collections, kept byte for byte, merged, and found by what they contain."""
