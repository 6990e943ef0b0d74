"""An S3-compatible service for the tests: moto, in an environment of its own.

Its botocore and our matplotlib want different releases of python-dateutil, so it cannot be among our own packages.
"""
