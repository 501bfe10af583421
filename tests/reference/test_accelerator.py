"""What is promised between devices, on a fake accelerator in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lazy_tensor_storage import LazyTensorStorage

HERE = Path(__file__).parent
ROOTS = [str(HERE.parents[1] / name) for name in ("reference", "conformance")]


def test_promises_between_devices_hold_on_a_fake_accelerator():
    program = (
        f"import sys; sys.path[:0] = {ROOTS!r}; import pytest; "
        f"sys.exit(pytest.main([{str(HERE / 'on_fake_accelerator.py')!r}, '-q', '-p', 'no:cacheprovider']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=HERE.parents[1]
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bool, torch.uint8, torch.bfloat16, torch.float8_e5m2, torch.complex128]
)
def test_cuda_keeps_bits_and_lets_the_last_item_win(dtype):
    storage = LazyTensorStorage(1000, device="cuda")
    data = torch.randn(500, 7).to(dtype)
    rows = torch.randint(0, 900, (500,))
    storage.set(rows, data)
    last = {row: place for place, row in enumerate(rows.tolist())}
    found = storage[torch.tensor(list(last), device="cuda")].cpu()
    assert torch.equal(found.view(torch.uint8), data[list(last.values())].view(torch.uint8))
    assert storage.device == found.cuda().device
