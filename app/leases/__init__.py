"""Named leases: one holder at a time, with a fencing token that only grows."""
