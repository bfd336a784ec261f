"""From kernels to machine code, through LLVM."""
