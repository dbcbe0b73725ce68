"""Products of several operands: cut into steps by estimated cost, and run one after the other"""
