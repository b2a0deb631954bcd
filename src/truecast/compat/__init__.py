"""Other libraries' interfaces over truecast, for scripts that were written for them."""
