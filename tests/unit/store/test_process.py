"""Is a process of this host alive, and is it the same one?"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from assay.store.process import lives, started, this_process


def test_this_process_lives() -> None:
    assert lives(this_process()) is True


def test_another_process_with_the_same_number_is_not_the_same() -> None:
    assert lives(replace(this_process(), started="long ago")) is False


def test_where_the_host_does_not_say_when_it_started_the_number_decides() -> None:
    assert lives(replace(this_process(), started="")) is True


def test_nobody_here_knows_of_another_host() -> None:
    assert lives(replace(this_process(), host="elsewhere")) is None


def test_nobody_here_knows_of_another_machine_or_container_of_the_same_name() -> None:
    assert lives(replace(this_process(), system="another boot, or other numbers")) is None


def test_a_process_that_ended_is_dead_even_before_its_parent_looked() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        when = started(child.pid)
        assert when
        child.kill()
    assert started(child.pid) is None
    assert lives(replace(this_process(), pid=child.pid, started=when)) is False
