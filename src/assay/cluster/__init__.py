"""Runs on Ray.

Whatever of this package a process imports, Arrow is loaded after this, and reads then what is said here. In a driver it
is there already.
"""

import os

# Milliseconds for which memory that Arrow has freed is not given back. By default it is taken anew for every few
# thousand rows, and the kernel clears each page of it: a tenth of what writing a wide table takes.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "10000")
