"""Names: unsafe ones are refused early, all others give right numbers in both backends, whatever they collide with.

Names of the description become identifiers in C++ and in Python beside keywords, macros, library functions, helpers
and the variables of the templates. Each name of `COLLIDING` plays every role: input, output, dim, scalar, value, group.
"""

from __future__ import annotations

import builtins
import itertools
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emitter
import launch
from emitter import cuda_source, errors, host_source, triton_source
from emitter.names import _CPP_KEYWORDS, _CPP_MACROS, Namer, check_name, is_name
from emitter.prelude import blocks, defined
from emitter.read import parse, parse_type
from launch.cpu.compiler import build_cpu, host_compiler

ILLEGAL = [
    *("for", "class", "lambda", "None", "__global__", "x y", "a-b", "1x", "", "café", "x;}//", "*/", '"""', "x\n"),
    *(
        "{{7*7}}",
        "a" * 300,
        "_x",
        "x__y",
        "inf",
        "nan",
        "True",
        "x\\",
        "x'",
        "ｘ",
        "x\u200b",
        "$x",
        "x.y",
        "//",
        "{#",
        "%}",
    ),
]
LEGAL = ["int", "double", "tl", "triton", "BLOCK", "n", "exp", "threadIdx"]

TEMPLATES = """
    tile tiles_in_row inside INDEX BLOCK BLOCK_M BLOCK_N BLOCK_ROW VEC Index v r first_row row rows wide aligned
    index kernel out arguments vector block block_x block_y block_m block_n block_row launch build view np sys
    contextlib pathlib cupy nvrtc triton tl libdevice i n m N M K x_ptr y_ptr BLOCK_ program program_id size
    stride width x_at x_2 x_ signature constants names divisible attributes target source compiled entry scratch
    GPUTarget ASTSource numpy
"""
LIBRARY = """
    expf fabsf sqrtf exp log pow floor ceil round rint trunc fabs sqrt fmax fmin fmod y0 y1 yn j0 j1 jn gamma
    lgamma tgamma erfcx fma fmaf min max abs div index read write time clock printf malloc free memcpy memset
    exit main remove signal stat link select rsqrtf norm3df sinpi saturatef ldexp frexp modf isnan isinf signbit
    copysign dim3 float4 int2 uint3 half half2 atomicAdd warpSize blockIdx blockDim gridDim size_t int8_t
    uint64_t ptrdiff_t std cuda tm timezone environ fd_set jmp_buf write_pair read_pair shared_memory cuda_cpu
"""
MACROS = """
    M_PI M_PI_2 M_E NULL EOF NAN INFINITY major minor makedev linux unix signgam errno assert INT_MAX LONG_MIN
    RAND_MAX HUGE_VAL FP_NAN FP_NORMAL SEEK_SET stdin stdout stderr BUFSIZ offsetof alloca MATH_ERRNO SIGSEGV
    FE_INVALID CHAR_BIT
"""
BUILTINS = """
    abs bool dict eval float hash id input int iter len list map max min next object open pow print range round set sum
    super type zip
"""
HELPERS = {*defined("cuda/prelude.cuh"), *defined("triton/prelude.py"), *defined("host/arrays.py")}
PYTHON_NAMES = {*defined("triton/prelude.py"), *defined("host/arrays.py"), *BUILTINS.split(), *triton_source.BESIDE}
COLLIDING = sorted(
    name
    for name in {
        *(" ".join([TEMPLATES, LIBRARY, MACROS, _CPP_KEYWORDS, _CPP_MACROS]).split()),
        *BUILTINS.split(),
        *HELPERS,
    }
    if is_name(name)
)


@pytest.mark.parametrize("name", ILLEGAL, ids=[ascii(n)[:20] for n in ILLEGAL])
def test_unsafe_names_are_refused_in_every_role(name: str) -> None:
    quoted = json.dumps(name)
    head = 'name = "g"\noutputs = ["y"]\n[inputs]\na = "f32[N]"\n'
    roles = {
        "group": f'name = {quoted}\noutputs = ["y"]\n[inputs]\na = "f32[N]"\n[body]\ny = "a + 1"\n',
        "input": f'{head}{quoted} = "f32[N]"\n[body]\ny = "a + 1"\n',
        "value": f'{head}[body]\n{quoted} = "a + 1"\ny = "a + 1"\n',
        "output": f'name = "g"\noutputs = [{quoted}]\n[inputs]\na = "f32[N]"\n[body]\n{quoted} = "a + 1"\n',
        "scalar": f'{head}{quoted} = "f32"\n[body]\ny = "a + 1"\n',
    }
    for role, text in roles.items():
        with pytest.raises(errors.UnsafeName) as caught:
            parse(text)
        assert str(caught.value).isascii() and len(str(caught.value)) < 300
        assert ascii(name)[:60] in str(caught.value), role
    with pytest.raises((errors.UnsafeName, errors.UnknownDim)) as caught:
        parse_type("x", f"f32[{name.replace(chr(10), '!')}, 4]")  # spaces around a dim mean nothing
    assert str(caught.value).isascii()


def test_a_name_that_is_too_long_says_how_long_it_may_be() -> None:
    assert check_name("a" * 64, "input") == "a" * 64
    with pytest.raises(errors.UnsafeName, match=r"the input name 'aaaa.* is 65 characters long, at most 64"):
        check_name("a" * 65, "input")


SMALL = emitter.Schedule(tile=16, columns=16, vector=1)


def run(group: emitter.FusionGroup, backend: str, *arguments: object) -> list[np.ndarray]:
    result = launch.load(group, backend, device="cpu", schedule=SMALL)(*arguments)
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@pytest.mark.parametrize("shift", range(len(LEGAL)))
def test_reserved_words_in_every_role_give_right_numbers(shift: int, backend: str) -> None:
    group, a, b, value, output, size, scalar = itertools.islice(itertools.cycle(LEGAL), shift, shift + 7)
    text = (
        f'name = "{group}"\noutputs = ["{output}"]\n[inputs]\n{a} = "f32[{size}]"\n{b} = "f32[{size}]"\n'
        f'{scalar} = "f32"\n[body]\n{value} = "{a} + {b}"\n{output} = "{value} + {scalar}"\n'
    )
    one, ten = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    (result,) = run(parse(text), backend, one, ten, 0.0)
    assert result.tolist() == [11, 22]
    assert emitter.reference(parse(text), one, ten, 0.0).tolist() == [11, 22]


ROLES = 5


def everything(shift: int) -> tuple[emitter.FusionGroup, list[object]]:
    """A group in which each colliding name has one of five roles, and arguments for it.

    The body calls helpers and library functions between, so that a name which hides one is noticed.
    """
    roles: list[list[str]] = [COLLIDING[(k + shift) % ROLES :: ROLES] for k in range(ROLES)]
    tensors, outputs, dims, scalars, values = roles
    own = ["q_x", "q_at", "q_z", "q_n", "q_group"]
    lines = [f'{n} = "f32[q_n]"' for n in ["q_x", *tensors]] + ['q_at = "i32[q_n]"']
    lines += [f'q_t{k} = "f32[{d}]"' for k, d in enumerate(dims)] + [f'{n} = "f32"' for n in scalars]
    body, last = [], "q_x"
    for name in (*tensors, *scalars):
        body.append(f"{last} + {name}")
        last = values[len(body) - 1] if len(body) <= len(values) else f"q_v{len(body)}"
    named = [(values[k] if k < len(values) else f"q_v{k + 1}", text) for k, text in enumerate(body)]
    for extra in values[len(body) :]:
        named.append((extra, f"{last} + 1.0"))
        last = extra
    for k, d in enumerate(dims):
        named.append((f"q_d{k}", f"{last} + take(q_t{k}, q_at, 0) * {d}"))
        last = f"q_d{k}"
    for k, output in enumerate(outputs):
        named.append((output, f"{last} + {k}.0"))
    named.append(("q_z", f"maximum(sqrt(abs({last})), floor({last} / 3.0)) + {last} % 7.0 + {last} // 5.0"))
    named.append(("q_e", f"gelu(exp(-abs({last})), approximate='tanh') + sigmoid({last}) + pow(abs({last}), 0.25)"))
    named.append(("q_i", "(q_at // 3 % 5) ** 2 << 1"))
    text = 'name = "q_group"\noutputs = [' + ", ".join(f'"{o}"' for o in (*outputs, "q_z", "q_e", "q_i")) + "]\n"
    text += "[inputs]\n" + "\n".join(lines) + "\n[body]\n" + "\n".join(f'{n} = "{e}"' for n, e in named) + "\n"
    count = 5
    arguments: list[object] = [np.arange(count, dtype=np.float32) + k for k in range(1 + len(tensors))]
    arguments.append(np.array([0, 2, -1, 1, 0], np.int32))
    arguments += [np.arange(3, dtype=np.float32) + k for k in range(len(dims))]
    arguments += [float(k) for k in range(len(scalars))]
    assert not set(own) & set(COLLIDING)
    return parse(text), arguments


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@pytest.mark.parametrize("shift", range(ROLES))
def test_every_colliding_name_in_every_role(shift: int, backend: str) -> None:
    group, arguments = everything(shift)
    want = emitter.reference(group, *arguments)
    got = run(group, backend, *arguments)
    for name, a, b in zip(group.outputs, got, want, strict=True):
        if name == "q_e":
            np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("name", sorted({n for n in PYTHON_NAMES if is_name(n)}))
def test_a_triton_kernel_beside_every_python_name(name: str) -> None:
    source = emitter.emit(addition(name), "triton")
    namespace = launch.kernel.execute(f"{source.device}\n\n{source.host}", name)
    assert namespace[source.entry].fn.__name__ == source.entry
    assert callable(namespace["launch"]) and callable(namespace["view"]) and callable(namespace["build"])
    beside = {*triton_source.BESIDE, *defined("triton/prelude.py"), *defined("host/arrays.py"), *dir(builtins)}
    assert source.entry not in beside


def addition(name: str) -> emitter.FusionGroup:
    return parse(f'name = "{name}"\noutputs = ["y"]\n[inputs]\na = "f32[N]"\nb = "f32[N]"\n[body]\ny = "a + b"\n')


@pytest.mark.parametrize("name", ["source", "index", "signature", "view", "max", "load", "size_t", "M_PI", "gelu_tanh"])
@pytest.mark.parametrize("backend", emitter.BACKENDS)
def test_kernels_named_like_what_stands_beside_them_run(name: str, backend: str) -> None:
    one, ten = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    assert run(addition(name), backend, one, ten)[0].tolist() == [11, 22]


def every_kernel() -> tuple[str, list[str]]:
    """A translation unit with the whole prelude and a kernel of every name, and the names."""
    reserved = cuda_source.RESERVED | set(defined("cuda/prelude.cuh"))
    names = sorted({Namer("cpp", reserved).kernel(name) for name in COLLIDING})
    assert len(names) > len(COLLIDING) - 10
    kernel = "template <typename Index, int VEC>\n__global__ void {}(float* p, Index n) {{ p[0] = VEC * expf(p[n]); }}"
    texts = [block.text for block in blocks("cuda/prelude.cuh")] + [kernel.format(n) for n in names]
    return "\n".join(texts), [f"{n}<int, 4>" for n in names]


def test_kernels_of_every_name_compile_as_cpp() -> None:
    text, names = every_kernel()
    assert build_cpu(text, names)


def test_kernels_of_every_name_compile_with_nvrtc() -> None:
    nvrtc = pytest.importorskip("cupy", reason="NVRTC comes with CuPy").cuda.nvrtc
    text, names = every_kernel()
    program = nvrtc.createProgram(text, "names.cu", [], [])
    for name in names:
        nvrtc.addNameExpression(program, name)
    try:
        nvrtc.compileProgram(program, ("-arch=sm_90", "--std=c++17"))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))


def test_no_variable_is_a_macro_of_the_mathematical_headers() -> None:
    listing = subprocess.run(
        [*host_compiler().command, "-std=gnu11", "-x", "c", "-dM", "-E", "-"],
        input="#include <math.h>\n#include <stddef.h>\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    macros = set(re.findall(r"^#define ([A-Za-z]\w*) ", listing, re.MULTILINE))
    assert {"M_PI", "FP_NAN", "HUGE_VAL", "INFINITY", "NULL"} <= macros
    for macro in filter(is_name, sorted(macros)):
        assert Namer("cpp").name(macro) not in macros


def test_the_host_reserves_what_its_template_assigns() -> None:
    text = (Path(emitter.templates.template_folder()) / "host" / "launch.py.jinja").read_text(encoding="utf-8")
    assigned = set(re.findall(r"^ *([a-z_]+) = ", text, re.MULTILINE))
    assert assigned | {"index", "vector", "block_x", "block_y"} <= host_source._RESERVED


def test_readable_names_stay_as_they_are() -> None:
    source = "name = 'layer'\noutputs = ['y0', 'y1']\n[inputs]\ninput = 'f32[M, N]'\ngamma = 'f32[N]'\nsum = 'f32[N]'\n"
    group = parse(source + "[body]\ny0 = 'input * gamma'\ny1 = 'y0 + sum'\n")
    for backend in emitter.BACKENDS:
        emitted = emitter.emit(group, backend)
        assert "def launch(input, gamma, sum, *, out=None):" in emitted.host
        assert re.search(r"\by0 = |\by0\[v\] = ", emitted.device)
        assert [p.name for p in emitted.params[:5]] == ["input_ptr", "gamma_ptr", "sum_ptr", "y0_ptr", "y1_ptr"]


def test_a_namer_never_gives_a_name_twice_or_a_reserved_one() -> None:
    namer = Namer("cpp", {"v"})
    wanted = ["x", "x", "x", "x_", "x_2", "v", "v", "int", "M_PI", "M_PI", "M_PI_value", "a__b", "a_b"]
    assert [namer.name(w) for w in wanted] == [
        *("x", "x_", "x_2", "x_1", "x_2_", "v_", "v_2", "int_"),
        *("M_PI_value", "M_PI_value_", "M_PI_value_value", "a_b", "a_b_"),
    ]
    assert Namer("python").name("int") == "int_" and Namer("python").name("double") == "double"


POOL = st.sampled_from([*COLLIDING, "x", "x_", "x_2", "x_ptr", "x_at", "m", "M", "n", "N", "row", "rows", "y"])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(POOL, min_size=8, max_size=8, unique=True))
def test_any_mix_of_names_emits_distinct_identifiers(names: list[str]) -> None:
    group, a, b, s, value, output, dim, other = names
    text = (
        f'name = "{group}"\noutputs = ["{output}", "{value}"]\n[inputs]\n{a} = "f32[{dim}, {other}]"\n'
        f'{b} = "f32[{other}]"\n{s} = "f32"\n[body]\n{value} = "{a} + take({b}, index(-1), 0)"\n'
        f'{output} = "{value} * {s} * {dim} + index(0)"\n'
    )
    described = parse(text)
    for backend in emitter.BACKENDS:
        source = emitter.emit(described, backend)
        params = [p.name for p in source.params] + list(source.tile_names)
        assert len(set(params)) == len(params)
        assert all(p in source.device for p in params)
        assert source.device.isascii() and source.host.isascii()
        for file, content in source.files:
            if file.endswith(".py"):
                compile(content, file, "exec")
        if backend == "cuda":
            locals_ = re.findall(r"^ +(?:const )?(?:Index|float|double) (\w+)(?: =|\[|;)", source.device, re.MULTILINE)
            assert not set(locals_) & set(_CPP_KEYWORDS.split())
