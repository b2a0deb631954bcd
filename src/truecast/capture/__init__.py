"""Program -> Graph: the recorder (any executed code), torch.export / FX, and torch.compile."""
