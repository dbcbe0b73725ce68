"""The GPU: devices, the steps of a call, graphs, and the emulator."""
