"""The end of a tenant: everything of it goes, and a receipt says so."""
