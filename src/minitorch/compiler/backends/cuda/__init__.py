"""The backend for GPUs. Enters: a recorded program. Leaves: kernels for threads and blocks, replayed as CUDA graphs."""
