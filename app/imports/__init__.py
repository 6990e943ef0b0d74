"""Imports: what another system exported, brought into the record in one transaction."""
