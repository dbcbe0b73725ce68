"""From a statement to loops: their order, conversions of operands, how the result is assembled."""
