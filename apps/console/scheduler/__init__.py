"""The scheduler itself: who leads, how far behind it is, what it holds."""
