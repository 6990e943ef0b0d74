"""The bus: NATS with JetStream, whose loss makes things later and never wrong."""
