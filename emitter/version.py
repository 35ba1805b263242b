"""The version, which stands in every generated banner."""

VERSION = "0.1.0"
