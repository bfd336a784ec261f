"""What `import torch` finds first in a process that was spawned under the torch face. Leaves: that face, here too."""

import sys

from minitorch.face import install_as_torch

del sys.modules["torch"]  # this file; what is imported is what the next line puts there
install_as_torch()
