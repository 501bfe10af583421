"""A device that behaves like an accelerator and lives in CPU memory, for tests of what happens between devices.

Torch's PrivateUse1 backend gets a tensor subclass around CPU tensors. Tensors report device ``fake:N``, mixing them
with CPU tensors raises as on CUDA, and allocations are counted in ``torch.fake.memory_allocated``. Registration is
once per process and cannot be undone: install it in a process of its own.
"""

import weakref

import torch
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _DummyDeviceGuard,
    _DummyPrivateUse1Hook,
    _setup_privateuseone_for_python_backend,
)

N_DEVICES, _allocated, aten = 2, [0] * 2, torch.ops.aten
_current, _seen = 0, set()
_INDEX_OPS = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_"}
_COPY_OPS = {"copy_", "_to_copy", "_copy_from", "_foreach_copy_"}


class _Module(_DummyBackendModule):  # becomes torch.fake
    def is_available(self):
        return True

    def is_initialized(self):
        return True

    def device_count(self):
        return N_DEVICES

    def current_device(self):
        return _current

    def synchronize(self, device=None):
        return None

    def memory_allocated(self, device=0):
        return _allocated[device if isinstance(device, int) else _dev(device).index]

    def _is_in_bad_fork(self):
        return False

    def manual_seed_all(self, seed):
        return None

    def get_amp_supported_dtype(self):
        return [torch.float16, torch.bfloat16]


def _dev(device):
    device = torch.device("fake" if device is None else device)
    device = torch.device("fake", _current) if device.index is None else device
    if device.index >= N_DEVICES:
        raise RuntimeError(f"fake error: invalid device ordinal {device.index}")
    return device


def _is_fake(device):
    return device is not None and torch.device(device).type == "fake"


class FakeDeviceTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, raw, device):
        self = torch.Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=device,
        )
        self.raw = raw
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self, **kw):
        return f"{self.raw!r} on {self.device}"

    def data_ptr(self):
        return self.raw.data_ptr()

    def untyped_storage(self):
        return self.raw.untyped_storage()

    def tolist(self):
        return self.raw.tolist()

    def __reduce_ex__(self, proto):
        return (_rebuild, (self.raw, str(self.device)))

    def __deepcopy__(self, memo):
        return _wrap(self.raw.clone(), self.device)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is aten.is_pinned.default:
            return False
        leaves = []
        tree_map(lambda x: leaves.append(x) if isinstance(x, torch.Tensor) else None, (args, kwargs))
        wrappers = [x for x in leaves if isinstance(x, cls)]
        device = wrappers[0].device if wrappers else None
        if "device" in kwargs and kwargs["device"] is not None:
            device = _dev(kwargs["device"]) if _is_fake(kwargs["device"]) else torch.device(kwargs["device"])
            kwargs["device"] = "cpu"
        name = func._schema.name.removeprefix("aten::")
        if name in _INDEX_OPS:  # CPU indices are fine, but not an index or a value from another device
            if any(
                isinstance(i, torch.Tensor) and i.device.type != "cpu" and i.device != args[0].device
                for i in args[1]
            ):
                raise RuntimeError(
                    f"indices should be either on cpu or on the same device as the indexed tensor ({args[0].device})"
                )
            leaves = [args[0], args[2]] if len(args) > 2 else []
        if (
            name not in _COPY_OPS and len({x.device for x in leaves if x.dim()}) > 1
        ):  # 0-d CPU values are allowed
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices ({name})"
            )

        def raw(x):
            return x.raw if isinstance(x, cls) else x

        out = func(*tree_map(raw, args), **tree_map(raw, kwargs))
        known = {id(w.raw): w for w in wrappers}

        def back(x):
            if not isinstance(x, torch.Tensor):
                return x
            if id(x) in known:  # in-place or out= : hand back the caller's own tensor
                return known[id(x)]
            return _wrap(x, device) if _is_fake(device) else x

        return tree_map(back, out)


def _wrap(raw, device):
    store = raw.untyped_storage()
    key, n, idx = store._cdata, store.nbytes(), torch.device(device).index
    if key not in _seen:  # count each allocation once; views share the storage
        _seen.add(key)
        _allocated[idx] += n

        def free():
            _seen.discard(key)
            _allocated[idx] -= n

        weakref.finalize(raw, free)
    return FakeDeviceTensor(raw, device)


def _rebuild(raw, device):
    return _wrap(raw, torch.device(device))


def install():
    _setup_privateuseone_for_python_backend(
        "fake", backend_module=_Module(), device_guard=_DummyDeviceGuard(), hook=_DummyPrivateUse1Hook()
    )
    for op in (
        "empty.memory_format",
        "empty_strided",
        "arange",
        "arange.start",
        "arange.start_step",
        "randint.low",
        "randint.low_generator",
        "randint",
        "randint.generator",
        "zeros",
        "full",
        "ones",
        "tensor",
        "scalar_tensor",
        "randperm",
        "randperm.generator",
    ):
        name, _, over = op.partition(".")
        packet = getattr(aten, name, None)
        if packet is None or (over or "default") not in packet.overloads():
            continue
        func = getattr(packet, over or "default")

        def impl(*args, _func=func, **kwargs):
            device, kwargs["device"] = _dev(kwargs.get("device")), "cpu"
            kwargs.pop("pin_memory", None)
            return _wrap(_func(*args, **kwargs), device)

        torch.library.impl("aten::" + op, "privateuseone")(impl)

    @torch.library.impl("aten::_copy_from", "privateuseone")
    def _copy_from(src, dst, non_blocking=False):  # torch.tensor(..., device="fake") lands here
        getattr(dst, "raw", dst).copy_(getattr(src, "raw", src))
        return dst
