# Helpers of the generated host code: plain Python over NumPy, CuPy and torch arrays. A generated file gets only
# the blocks it uses: a block starts at a line `# --- name[, name ...]` and may use other blocks by their names.

# --- array_module, use_arrays
_arrays = None  # CuPy, imported at the first launch; NumPy where use_arrays(numpy) asks for the CPU


def array_module():
    """The module whose arrays this file takes and allocates."""
    global _arrays
    if _arrays is None:
        import cupy

        _arrays = cupy
    return _arrays


def use_arrays(module):
    """Take and allocate arrays of `module`: numpy runs on the CPU, given a `build` that does."""
    global _arrays
    _arrays = module


# --- View, view
class View:
    """What a launch needs to know of one array. Strides are in elements; device is None on the CPU."""

    __slots__ = ("name", "array", "dtype", "pointer", "shape", "strides", "itemsize", "contiguous", "device")

    def __init__(self, name, array, dtype, pointer, shape, strides, itemsize, contiguous, device):
        self.name, self.array, self.dtype, self.pointer, self.shape = name, array, dtype, pointer, shape
        self.strides, self.itemsize, self.contiguous, self.device = strides, itemsize, contiguous, device


def view(name, array, dtype, rank):
    """A View of `array` after checking its kind, dtype and rank; nothing is copied."""
    arrays = array_module()
    if hasattr(array, "data_ptr"):  # torch
        got, shape, strides, itemsize = str(array.dtype)[6:], tuple(array.shape), array.stride(), array.itemsize
        pointer, device, contiguous = array.data_ptr(), array.get_device(), array.is_contiguous()
        device = None if device < 0 else device
    else:
        array = as_array(name, array, dtype)
        got, shape, itemsize = array.dtype.name, array.shape, array.itemsize
        strides, contiguous = tuple([stride // itemsize for stride in array.strides]), array.flags.c_contiguous
        if isinstance(array, np.ndarray):
            pointer, device = array.ctypes.data, None
        else:
            pointer, device = array.data.ptr, array.data.device_id
    if (device is None) != (arrays is np):
        where, way_out = ("the CPU", "x.get() or x.cpu()") if arrays is np else ("a GPU", "cupy.asarray(x) or x.cuda()")
        kind = f"{type(array).__module__}.{type(array).__name__}"
        raise TypeError(f"{name}: expected an array on {where}, got {kind}; use {way_out}")
    if got != dtype:
        raise TypeError(f"{name}: expected dtype {dtype}, got {got}; cast it")
    if len(shape) != rank:
        raise ValueError(f"{name}: expected {rank} dims, got shape {shape}")
    if pointer % itemsize:
        raise ValueError(f"{name}: its address is no multiple of the {itemsize}-byte element; copy it")
    return View(name, array, dtype, pointer, shape, strides, itemsize, contiguous, device)


def as_array(name, array, dtype):
    """A NumPy or CuPy array, also of an object that only has a `__cuda_array_interface__`."""
    arrays = array_module()
    if arrays is not np and not isinstance(array, arrays.ndarray) and hasattr(array, "__cuda_array_interface__"):
        array = arrays.asarray(array)
    if not isinstance(array, (np.ndarray, arrays.ndarray)):
        raise TypeError(f"{name}: expected an array of {dtype}, got {type(array).__name__}")
    if not array.dtype.isnative:
        got = array.dtype
        raise TypeError(f"{name}: expected {dtype} in native byte order, got {got.str}; use x.astype({got.name!r})")
    if any([stride % array.itemsize for stride in array.strides]):
        raise ValueError(f"{name}: strides {array.strides} are no multiples of its {array.itemsize}-byte elements; copy it")
    return array


# --- expect_shape
def expect_shape(x, shape, text):
    """Refuse another shape; `text` shows it in the group's symbols."""
    if x.shape != shape:
        raise ValueError(f"{x.name}: expected shape {text} = {shape}, got {x.shape}")


# --- expect_contiguous
def expect_contiguous(*views):
    """Refuse arrays that this kernel, made for contiguous ones, would read wrongly."""
    for x in views:
        if not x.contiguous:
            raise ValueError(
                f"{x.name}: expected a C-contiguous array, got strides {x.strides} for shape {x.shape}; copy it, "
                f"or emit a kernel for strided arrays (kernelpress emit --layout {x.name}=strided)"
            )


# --- expect_unit
def expect_unit(x, axis):
    """Refuse an array whose neighbours along `axis` are not neighbours in memory."""
    if x.shape[axis] > 1 and x.strides[axis] != 1:
        raise ValueError(
            f"{x.name}: expected stride 1 along axis {axis}, got strides {x.strides}; copy it, "
            f"or emit a kernel for any strides (kernelpress emit --layout {x.name}=strided)"
        )


# --- span
def span(x):
    """One more than the greatest distance between two of its elements, in elements."""
    return 1 + sum((size - 1) * abs(stride) for size, stride in zip(x.shape, x.strides))


# --- expect_number
def expect_number(name, value, dtype):
    """Refuse what is no Python or NumPy number."""
    if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        raise TypeError(f"{name}: expected a number for a scalar of {dtype}, got {type(value).__name__}")


# --- scalar
def scalar(name, value, dtype):
    """A number as the kernel takes it. Raises when the parameter's dtype cannot hold it."""
    expect_number(name, value, dtype)
    if dtype.startswith(("int", "uint")):
        if isinstance(value, (float, np.floating)):
            raise TypeError(f"{name}: expected an integer for a scalar of {dtype}, got {value!r}")
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise OverflowError(f"{name}: {value} does not fit {dtype} ({limits.min} to {limits.max})")
    with np.errstate(over="ignore"):
        return np.dtype(dtype).type(value)


# --- half_scalar
def half_scalar(name, value, dtype):
    """A scalar of float16 or bfloat16, rounded to it and passed as float32."""
    expect_number(name, value, dtype)
    with np.errstate(over="ignore"):
        if dtype == "float16":
            return np.float32(np.float16(value))
        wide = np.float32(value)
    if wide != wide:
        return wide
    bits = int(wide.view(np.uint32))
    return np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


# --- empty
def empty(shape, dtype, like):
    """A new array beside `like`: torch for a torch tensor, else of the array module."""
    if like is not None and hasattr(like.array, "data_ptr"):
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.array.device)
    try:
        element = np.dtype(dtype)
    except TypeError:  # bfloat16 and fp8 are ml_dtypes'
        import ml_dtypes

        element = np.dtype(getattr(ml_dtypes, dtype))
    with contextlib.nullcontext() if like is None else device_of(like):
        if dtype.startswith("float8"):  # CuPy allocates no fp8, but views bytes as it
            return array_module().empty(shape, np.uint8).view(element)
        return array_module().empty(shape, element)


# --- padded
def padded(x, shape):
    """The view itself; where it is empty, one of scratch memory of `shape` beside it."""
    return view(x.name, empty(shape, x.dtype, x), x.dtype, len(shape)) if 0 in x.shape else x


# --- output
def output(name, out, dtype, shape, like, text):
    """A View of `out` after checking it, or of a new array where `out` is None."""
    if out is None:
        out = empty(shape, dtype, like)
    elif isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError(f"{name}: expected an array to write to, got a read-only one")
    x = view(name, out, dtype, len(shape))
    expect_shape(x, shape, text)
    if 0 not in shape and any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.strides)):
        raise ValueError(f"{name}: its elements overlap each other (strides {x.strides}); give an array without stride 0")
    return x


# --- out_tuple
def out_tuple(out, names):
    """`out` as one array or None for each output."""
    if out is None:
        return (None,) * len(names)
    if not isinstance(out, (tuple, list)) or len(out) != len(names):
        raise TypeError(f"out: expected a tuple of {len(names)} arrays ({', '.join(names)}), got {type(out).__name__}")
    return tuple(out)


# --- same_device
def same_device(*views):
    """Refuse arrays that live on different GPUs."""
    for x in views:
        if x.device != views[0].device:
            raise ValueError(f"{x.name} is on GPU {x.device}, {views[0].name} on GPU {views[0].device}; move one")


# --- memory_range
def memory_range(x):
    """First and one past the last address of its elements; (0, 0) where it has none."""
    if 0 in x.shape:
        return 0, 0
    if x.contiguous:
        return x.pointer, x.pointer + math.prod(x.shape) * x.itemsize
    ends = [(size - 1) * stride * x.itemsize for size, stride in zip(x.shape, x.strides)]
    low = x.pointer + sum(end for end in ends if end < 0)
    return low, x.pointer + sum(end for end in ends if end > 0) + x.itemsize


# --- expect_apart
def expect_apart(outputs, inputs, in_place):
    """Refuse an output that overlaps an input. `in_place` names inputs that an output may equal exactly."""
    for y in outputs:
        low, high = memory_range(y)
        for x in inputs:
            x_low, x_high = memory_range(x)
            if x_low < high and low < x_high:
                same = (x.pointer, x.shape, x.strides, x.itemsize) == (y.pointer, y.shape, y.strides, y.itemsize)
                if not (same and x.name in in_place):
                    raise ValueError(f"{y.name}: the output's memory overlaps {x.name}; give an array of its own")


# --- expect_disjoint
def expect_disjoint(*outputs):
    """Refuse outputs that overlap one another."""
    ranges = sorted((*memory_range(y), y.name) for y in outputs)
    for (_, end, name), (start, _, other) in zip(ranges, ranges[1:]):
        if start < end:
            raise ValueError(f"{other}: the output's memory overlaps {name}; give an array of its own")


# --- stream_of
def stream_of(x):
    """The caller's current stream as a handle: torch's for a torch tensor, else CuPy's; None on the CPU."""
    if x.device is None:
        return None
    if hasattr(x.array, "data_ptr"):
        return sys.modules["torch"]._C._cuda_getCurrentRawStream(x.device)
    return array_module().cuda.get_current_stream().ptr


# --- device_of
_here = contextlib.nullcontext()


def device_of(x):
    """A context in which the GPU that holds `x` is the current one."""
    if x.device is None or array_module().cuda.runtime.getDevice() == x.device:
        return _here
    return array_module().cuda.Device(x.device)


# --- kernel_for
_kernels = {}


def kernel_for(device, *instance):
    """The compiled kernel for one device and instance: built once, then kept."""
    key = (device, *instance)
    if key not in _kernels:
        _kernels[key] = build(*instance)
    return _kernels[key]


# --- load_binary
def load_binary(binary, symbol, shared=0, scratch=0):
    """A function of a cubin as `kernel(grid, block, arguments, stream)`."""
    import cupy

    module = cupy.cuda.function.Module()
    module.load(binary)
    function = module.get_function(symbol)
    if shared > 48 * 1024:
        function.max_dynamic_shared_size_bytes = shared
    padding = (np.uint64(0),) * scratch

    def kernel(grid, block, arguments, stream):
        function(grid, block, arguments + padding, shared, types.SimpleNamespace(ptr=stream))

    return kernel
