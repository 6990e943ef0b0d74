"""What versions descend from, what descends from them, and how two of them differ."""
