"""The loops. Each file is one loop and reads like the sentence that describes it."""
