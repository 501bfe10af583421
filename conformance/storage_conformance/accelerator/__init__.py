"""An accelerator without hardware, for tests of what happens between devices.

```python
from storage_conformance import accelerator

accelerator.install()  # once per process; torch.device("fake"), "fake:0" and "fake:1" exist from here on
torch.ones(3, device="fake:1") + torch.ones(3)  # RuntimeError, as on CUDA
torch.fake.memory_allocated("fake:1")  # exact, in bytes; so are max_memory_allocated and allocation_count
torch.fake.set_memory_limit(1 << 20, "fake:1")  # what would exceed it raises torch.OutOfMemoryError
```
"""

from storage_conformance.accelerator.devices import Unavailable, prepare
from storage_conformance.accelerator.fake import NAME, ORDINALS, install

__all__ = ["NAME", "ORDINALS", "Unavailable", "install", "prepare"]
