"""The `pjrt` device: a tensor subclass whose operations are recorded and run together when a value is needed."""
