"""The CPU: toolchain, shared libraries, launch, threads, Ctrl-C."""
