"""The proven best tiling of a matrix product as C, compiled and checked against the plain loop."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import mapspace as ms

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tiled.h"

static element A[{M}][{K}], B[{K}][{N}], Z[{M}][{N}], plain[{M}][{N}];

static double seconds(void) {{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}}

int main(void) {{
    for (int m = 0; m < {M}; ++m) for (int k = 0; k < {K}; ++k) A[m][k] = rand() % 7 - 3;
    for (int k = 0; k < {K}; ++k) for (int n = 0; n < {N}; ++n) B[k][n] = rand() % 7 - 3;
    double start = seconds();
    for (int m = 0; m < {M}; ++m)
        for (int n = 0; n < {N}; ++n)
            for (int k = 0; k < {K}; ++k) plain[m][n] += A[m][k] * B[k][n];
    double middle = seconds();
    {function}(A, B, Z);
    double end = seconds();
    printf("plain %.6f s, tiled %.6f s\\n", middle - start, end - middle);
    return memcmp(plain, Z, sizeof Z) != 0;
}}
"""


def main(m: int, n: int, k: int) -> int:
    """Finds, writes, compiles and runs; 0 where both loops compute the same."""
    result = ms.search(f"gemm:M={m},N={n},K={k}", "cpu-avx512")
    print(result.mapping)
    print(f"proven {result.proven}; {result.limit}")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        result.save(work / "best.jsonl")
        export = ["mapspace", "export", str(work / "best.jsonl"), "--as", "c"]
        code = subprocess.run(export, capture_output=True, text=True, check=True).stdout
        (work / "tiled.h").write_text(code)
        function = code.split("void ", 1)[1].split("(", 1)[0]
        (work / "main.c").write_text(MAIN.format(M=m, N=n, K=k, function=function))
        compiler = ["cc", "-O2", "-o", str(work / "run"), str(work / "main.c")]
        subprocess.run(compiler, check=True)
        same = subprocess.run([str(work / "run")], check=False).returncode == 0
    print("the same results" if same else "OTHER RESULTS")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
