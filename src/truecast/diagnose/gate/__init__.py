"""Whether a program has become worse than its reviewed baseline."""
