"""What a person should know about a recorded program: where its dtypes come from, and what follows from them."""
