"""Backups of a tenant: one snapshot as a file that restores here, elsewhere, or into another tenant."""
