"""How tensors are stored: levels and formats as facts. No code is generated here."""
