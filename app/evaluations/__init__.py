"""What evaluators said of invocations."""
