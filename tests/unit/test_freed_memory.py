"""What threads have freed goes back to the system."""

import platform
import subprocess
import sys

import pytest

from tests.support.local import REPOSITORY

PROGRAM = """
import ctypes, os, sys, threading
from replication.app.process import give_back_memory
from tests.support.process_tree import own_memory

if sys.argv[1] == "given back":
    give_back_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
libc.free(libc.malloc(20 << 20))  # from now on glibc would keep 40 MB


def work():
    blocks = [libc.malloc(32 << 10) for _ in range(512)]
    for block in blocks:
        ctypes.memset(block, 1, 32 << 10)
    for block in blocks:
        libc.free(block)


for _ in range(4):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print(own_memory(os.getpid()))
"""


def memory(what: str) -> int:
    """The bytes that a process has whose threads have freed 16 MB."""
    command = [sys.executable, "-c", PROGRAM, what]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps it")
def test_what_threads_have_freed_is_given_back() -> None:
    assert memory("given back") < memory("kept") - (8 << 20)
