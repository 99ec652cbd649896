"""Runs a command as on a kernel that lacks some system calls: each of them fails with ENOSYS, for the command and
for everything it starts.

    older_kernel.py landlock,seccomp COMMAND...
"""

import ctypes
import errno
import os
import platform
import struct
import sys

# Numbers from 424 on are the same on every architecture.
CALLS = {
    "landlock": (444, 445, 446),  # landlock_create_ruleset, _add_rule, _restrict_self
    "seccomp": ({"x86_64": 317, "aarch64": 277}[platform.machine()],),
}

# Classic BPF (linux/filter.h) over struct seccomp_data, whose first member is the number of the call.
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


class Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def lay_filter(numbers):
    def instruction(code, value, if_true=0, if_false=0):
        return struct.pack("HBBI", code, if_true, if_false, value)

    program = instruction(LOAD_WORD, 0)
    for number in numbers:
        program += instruction(JUMP_IF_EQUAL, number, 0, 1) + instruction(RETURN, FAIL | errno.ENOSYS)
    program += instruction(RETURN, ALLOW)
    libc = ctypes.CDLL(None, use_errno=True)
    unused = ctypes.c_ulong(0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), unused, unused, unused) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    filter_program = Program(len(program) // 8, program)
    if libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(filter_program), unused, unused) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


if __name__ == "__main__":
    lay_filter([number for name in sys.argv[1].split(",") for number in CALLS[name]])
    os.execvp(sys.argv[2], sys.argv[2:])
