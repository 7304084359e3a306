#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes src/gpu/rank/stream_calls.h: the functions of CUDA's driver that work on a stream, from CUDA's headers.

    tools/gen_stream_calls.py /usr/local/cuda > src/gpu/rank/stream_calls.h

    tools/gen_stream_calls.py --by-hand          prints the hand-written functions

cudaTypedefs.h has every version of every function with its first version of CUDA; stubs/libcuda.so
has the symbols' names. tests/gpu/stream_calls_test.sh compares the result with the headers of the machine. An
unknown function or struct with a stream is an error.
"""
import os
import re
import subprocess
import sys

# Functions written by hand: waits, creation and destruction of streams, captures, launches, copies that may be repeated. src/gpu/rank/stream_api.h and guard.c have them.
BY_HAND = {
    "cuStreamSynchronize", "cuStreamQuery", "cuStreamDestroy", "cuStreamBeginCapture",
    "cuStreamBeginCaptureToGraph", "cuStreamEndCapture",
    "cuStreamGetFlags", "cuStreamGetId", "cuStreamCopyAttributes", "cuLaunchKernel", "cuLaunchCooperativeKernel", "cuStreamAddCallback", "cuLaunchHostFunc", "cuMemcpyHtoD", "cuMemcpyDtoH",
    "cuMemcpyAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuStreamSetAttribute", "cuStreamAttachMemAsync",
}
# Structs with a stream, and the functions that take them: cuLaunchKernelEx, cuLaunchCooperativeKernelMultiDevice (which refuses
# NULL), cuGraphInstantiateWithParams.
STRUCTS = {"CUlaunchConfig", "CUDA_LAUNCH_PARAMS_v1", "CUDA_GRAPH_INSTANTIATE_PARAMS"}
# The driver's own behaviour is right.
PASSED = {"cuStreamGetDevice"}
# Functions that only query the stream or set its attributes: no order with other streams.
ASKS = {
    "cuStreamGetPriority", "cuStreamGetCtx", "cuStreamGetGreenCtx",
    "cuStreamGetAttribute", "cuStreamSetAttribute", "cuStreamUpdateCaptureDependencies",
}
# The same about a capture: if that is refused, captures stay valid.
STATES = {"cuStreamGetCaptureInfo", "cuStreamIsCapturing"}
# Arguments that name a device, with the rank's number.
NUMBERS = {"CUdevice_v1": "GPU_CALL_NUMBER(%s)", "CUmemLocation_v1": "GPU_CALL_PLACE(%s)"}
# Where memory of the host may be: (read from there, written there, bytes). The driver waits for the stream if
# it is pageable.
STRUCT = ("GPU_CALL_HOST(pCopy, src)", "GPU_CALL_HOST(pCopy, dst)", "SIZE_MAX")
UNIFIED = ("GPU_CALL_POINTER(src)", "GPU_CALL_POINTER(dst)", "ByteCount")
HOST = {
    "cuMemcpyAsync": UNIFIED,
    "cuMemcpyHtoDAsync": ("srcHost", "NULL", "ByteCount"),
    "cuMemcpyDtoHAsync": ("NULL", "dstHost", "ByteCount"),
    "cuMemcpyHtoAAsync": ("srcHost", "NULL", "ByteCount"),
    "cuMemcpyAtoHAsync": ("NULL", "dstHost", "ByteCount"),
    "cuMemcpy2DAsync": STRUCT,
    "cuMemcpy3DAsync": STRUCT,
}
# The addresses of the two ends, of functions that can copy from device to device: (written, read).
COPY_ENDS = "(GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))"
ENDS = {
    "cuMemcpy": "(dst, src)",
    "cuMemcpyAsync": "(dst, src)",
    "cuMemcpyDtoD": "(dstDevice, srcDevice)",
    "cuMemcpyDtoDAsync": "(dstDevice, srcDevice)",
    "cuMemcpyPeer": "(dstDevice, srcDevice)",
    "cuMemcpyPeerAsync": "(dstDevice, srcDevice)",
    "cuMemcpy2D": COPY_ENDS,
    "cuMemcpy2DAsync": COPY_ENDS,
    "cuMemcpy2DUnaligned": COPY_ENDS,
    "cuMemcpy3D": COPY_ENDS,
    "cuMemcpy3DAsync": COPY_ENDS,
    "cuMemcpy3DPeer": COPY_ENDS,
    "cuMemcpy3DPeerAsync": COPY_ENDS,
}
# The calls that work on the default stream and wait, their twins that do not wait, and the addresses of the
# device if they need not wait: (written, read).
WAITS = {
    "cuMemcpy": ("cuMemcpyAsync", None),
    "cuMemcpyPeer": ("cuMemcpyPeerAsync", ("dstDevice", "srcDevice")),
    "cuMemcpyDtoD": ("cuMemcpyDtoDAsync", ("dstDevice", "srcDevice")),
    "cuMemcpyHtoA": ("cuMemcpyHtoAAsync", None),
    "cuMemcpyAtoH": ("cuMemcpyAtoHAsync", None),
    "cuMemcpy2D": ("cuMemcpy2DAsync", None),
    "cuMemcpy2DUnaligned": ("cuMemcpy2DAsync", None),
    "cuMemcpy3D": ("cuMemcpy3DAsync", None),
    "cuMemcpy3DPeer": ("cuMemcpy3DPeerAsync", None),
    "cuMemsetD8": ("cuMemsetD8Async", ("dstDevice", "0")),
    "cuMemsetD16": ("cuMemsetD16Async", ("dstDevice", "0")),
    "cuMemsetD32": ("cuMemsetD32Async", ("dstDevice", "0")),
    "cuMemsetD2D8": ("cuMemsetD2D8Async", ("dstDevice", "0")),
    "cuMemsetD2D16": ("cuMemsetD2D16Async", ("dstDevice", "0")),
    "cuMemsetD2D32": ("cuMemsetD2D32Async", ("dstDevice", "0")),
}
# Those without such a twin.
WAITS_ALONE = {"cuMemcpyDtoA", "cuMemcpyAtoD", "cuMemcpyAtoA"}


def read_versions(toolkit):
    """{base: {(version, is_per_thread): [(type, name), ...]}}"""
    text = open(toolkit + "/include/cudaTypedefs.h").read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = {}
    for base, version, twin, arguments in re.findall(
            r"typedef\s+CUresult\s*\(\s*CUDAAPI\s*\*\s*PFN_(\w+?)_v(\d+)(_pt[sd][sz])?\)\s*\((.*?)\)\s*;", text, flags=re.S):
        parameters = []
        for parameter in " ".join(arguments.split()).split(","):
            match = re.fullmatch(r"\s*(.*?[\s*])(\w+)(\[\d*\])?\s*", parameter)
            if match:
                parameters.append((match.group(1).strip(), match.group(2)))
        found.setdefault(base, {})[int(version), twin or ""] = parameters
    return found


def symbol_names(base, versions):
    """The name in libcuda of each version of a function: the nth has the suffix _vn, twins that of the version
    they belong to."""
    plain = sorted(version for version, twin in versions if not twin)
    names = {}
    for version, twin in versions:
        index = sum(1 for other in plain if other <= version) - 1
        names[version, twin] = base + ("_v%d" % (index + 1) if index > 0 else "") + twin
    return names


def check_known(toolkit, functions):
    """Whatever has a stream is in one of the lists."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", open(toolkit + "/include/cuda.h").read(), flags=re.S)
    for body, name in re.findall(r"typedef\s+struct\s+\w+\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}\s*(\w+)\s*;", text):
        if re.search(r"\bCUstream\b", body) and name not in STRUCTS:
            sys.exit("the struct %s has a stream: add the functions that take it" % name)
    for base, versions in functions.items():
        if any(twin == "_ptds" for _, twin in versions) and base not in set(WAITS) | WAITS_ALONE | BY_HAND:
            sys.exit("%s works on the default stream and waits: its asynchronous form is unknown" % base)
        several = any(sum(kind == "CUstream" for kind, _ in parameters) > 1 for parameters in versions.values())
        if several and base not in BY_HAND:
            sys.exit("%s takes several streams" % base)


def stream_of(parameters):
    """The index of the one stream among the parameters; -1: there is none."""
    places = [i for i, (kind, _) in enumerate(parameters) if kind == "CUstream"]
    return places[0] if len(places) == 1 else -1


def is_narrow(parameters):
    """Of 32-bit addresses: no 64-bit program has them."""
    return any(re.search(r"CUdeviceptr_v1|MEMCPY2D_v1|MEMCPY3D_v1", kind) for kind, _ in parameters) or any(
        argument in ("ByteCount", "srcOffset", "dstOffset") and kind == "unsigned int" for kind, argument in parameters)


def join(parameters):
    return ", ".join(kind + ("" if kind.endswith("*") else " ") + argument for kind, argument in parameters)


def waiting_rows(functions, symbols):
    """The rows of calls that wait, with and without a twin."""
    rows, alone = [], []
    for base in sorted(set(WAITS) | WAITS_ALONE):
        names = symbol_names(base, functions[base])
        for (version, twin), parameters in sorted(functions[base].items()):
            if is_narrow(parameters):
                continue
            name, arguments = names[version, twin], ", ".join(argument for _, argument in parameters)
            if name not in symbols:
                sys.exit("%s is not in libcuda: the rule for names has changed" % name)
            begin = "X(%s, %d, %d, (%s), (%s)" % (name, version, 1 if twin else 0, join(parameters), arguments)
            if base in WAITS_ALONE:
                alone.append(begin + ")")
                continue
            other, device = WAITS[base]
            newest = max((v for v, t in functions[other] if not t and v < 12000))
            rows.append("%s, %s, (%s, call.stream), %s, %s, %s)" % (
                begin, symbol_names(other, functions[other])[newest, ""], arguments,
                ", ".join(HOST.get(other, ("NULL", "NULL", "0"))[:2]), ", ".join(device or ("0", "0")),
                ENDS.get(base, "(0, 0)")))
    return rows, alone


def main(toolkit):
    functions = read_versions(toolkit)
    check_known(toolkit, functions)
    stub = next(filter(os.path.exists, (toolkit + "/lib64/stubs/libcuda.so", toolkit + "/lib/stubs/libcuda.so")), None)
    if not stub:
        sys.exit("there is no stubs/libcuda.so in " + toolkit)
    symbols = {line.split()[-1] for line in subprocess.run(
        ["nm", "-D", "--defined-only", stub],
        check=True, capture_output=True, text=True).stdout.splitlines()}
    rows = {}
    for base, versions in sorted(functions.items()):
        if base in BY_HAND or base in PASSED:
            continue
        names = symbol_names(base, versions)
        for (version, twin), parameters in sorted(versions.items()):
            place = stream_of(parameters)
            if place < 0 or is_narrow(parameters):
                continue
            name = names[version, twin]
            if name not in symbols:
                sys.exit("%s is not in libcuda: the rule for names has changed" % name)
            own = list(parameters)
            own[place] = ("CUstream", "stream")
            pass_on = [NUMBERS.get(kind, "%s") % argument for kind, argument in own]
            pass_on[place] = "call.stream"
            host = HOST.get(base, ("NULL", "NULL", "0"))
            rows.setdefault(version // 10 * 10 if version >= 12000 else 0, []).append(
                "X(%s, %d, %d, %s, (%s), (%s), %s, %s)" % (
                    name, version, 1 if twin else 0,
                    "ASK" if base in ASKS else "STATE" if base in STATES else "SUBMIT", join(own),
                    ", ".join(pass_on), ", ".join(host), ENDS.get(base, "(0, 0)")))
    waits, alone = waiting_rows(functions, symbols)
    print("""/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_calls.h: the functions of CUDA's driver that take one stream, or work on the default stream. Written
 * by tools/gen_stream_calls.py from CUDA's headers: change that, not this.
 */
#ifndef GPU_STREAM_CALLS_H
#define GPU_STREAM_CALLS_H

/* clang-format off */
/* The lists:
 *      GPU_STREAM_CALLS    X(name in libcuda, version of CUDA that brought it, NULL means the thread's stream (1) or
 *                          the legacy one (0), kind (enum gpu_call_kind), parameters, arguments, address in
 *                          the host's memory that is read, that is written (NULL: none), bytes, ends)
 *      GPU_WAITING_CALLS   X(name, version, stream, parameters, arguments, the call that does the same and does not
 *                          wait, its arguments, address of the host that is read, that is written, address of a
 *                          device that is written, that is read, if the call need not wait; else 0; ends)
 *      GPU_LONELY_CALLS    X(name, version, stream, parameters, arguments): those without such a call
 * ends: of a copy that may be from device to device, the address that is written and that is read; else (0, 0)
 */""")
    groups = sorted(rows)
    for group in groups:
        if group:
            print("#if CUDA_VERSION >= %d" % group)
        print("#define GPU_STREAM_CALLS_%d(X) \\\n    %s" % (group, " \\\n    ".join(rows[group])))
        if group:
            print("#else\n#define GPU_STREAM_CALLS_%d(X)\n#endif" % group)
    print("#define GPU_STREAM_CALLS(X) \\\n    %s" % " \\\n    ".join("GPU_STREAM_CALLS_%d(X)" % g for g in groups))
    print("#define GPU_WAITING_CALLS(X) \\\n    %s" % " \\\n    ".join(waits))
    print("#define GPU_LONELY_CALLS(X) \\\n    %s" % " \\\n    ".join(alone))
    print("/* clang-format on */\n\n#endif")


if sys.argv[1:] == ["--by-hand"]:
    print("\n".join(sorted(BY_HAND)))
else:
    main(sys.argv[1])
