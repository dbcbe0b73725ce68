"""Storage as pictures, in text and SVG."""
