"""The whole record of one invocation, and its metrics: above nodes and messages, which do not know each other."""
