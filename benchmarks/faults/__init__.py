"""The fault run: events flow to fifty endpoints while servers are killed, paused, flushed and started again."""
