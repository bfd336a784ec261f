"""The compiler: a function over Tensors, written down, simplified, fused and made native code."""
