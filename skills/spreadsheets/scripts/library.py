"""All functions of formulas, under one name."""

import functions
import words

# Each puts its functions into the same table when it is imported.
call = functions.call

__all__ = ["call", "words"]
