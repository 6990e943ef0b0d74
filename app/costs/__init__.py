"""What invocations and their nodes cost, added up; above both, and without tables of its own."""
