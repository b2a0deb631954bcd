"""What a lowered program does with precision: read, counted by operation and line, compared."""
