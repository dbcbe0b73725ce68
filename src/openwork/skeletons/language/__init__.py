"""The language of patterns: naturals, types, expressions, their text, and the type checker"""
