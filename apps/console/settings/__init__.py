"""A tenant's settings: who belongs to it, its keys, secrets and channels, its limits, and what it is."""
