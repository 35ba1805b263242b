"""Running emitted kernels on the CPU, over NumPy memory."""
