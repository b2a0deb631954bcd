"""The public functions, a file for each thing that people do: each composes stages, and only here all stages meet."""
