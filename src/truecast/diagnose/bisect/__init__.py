"""Which decisions of a policy carry a regression: the search, what it measures, where it stopped."""
