"""From patterns to loops of the program representation"""
