"""From one storage to another."""
