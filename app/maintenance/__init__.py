"""What keeps the record true when workers vanish."""
