"""How tensors are stored: levels and formats as facts; no code is generated here."""
