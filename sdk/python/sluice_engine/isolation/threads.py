"""Threads of a script: as at the end of CPython, those that are not daemons are waited for.

What a thread prints later would become part of another reply. So if one goes on, the process ends after the reply, which ends the
thread. Threads stay that a module starts while it is imported, and those that an installed package starts for itself."""

import _thread
import os
import sys
import threading

LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
PACKAGES = ("/site-packages/", "/dist-packages/")


class Threads:
    """Threads that go on after a script. `note_calls` before the first one."""

    def __init__(self, isolation):
        self._isolation = isolation
        self._active = threading._active
        self._known = set(threading.enumerate())
        self._started = set()  # by the script

    def note_calls(self, calls):
        calls._wrap(threading.Thread, "start", self._note)
        for name in ("start_new_thread", "start_new", "start_joinable_thread"):
            if hasattr(_thread, name):  # a thread that is in no list
                calls._wrap(_thread, name, lambda *_: setattr(self._isolation, "retire", not self._isolation.is_child))

    def _note(self, thread):
        if not _is_of_package(sys._getframe(2)):
            self._started.add(thread)

    def finish(self):
        """Waits for the threads of the script. If one goes on, the process will end after the reply."""
        if len(self._active) > 1:
            waited = self._known | {threading.current_thread()}
            while more := [thread for thread in threading.enumerate() if not thread.daemon and thread not in waited]:
                for thread in more:
                    _wait(thread)
                waited.update(more)
            left = set(threading.enumerate())
            for thread in left - self._known:
                if (thread in self._started or _is_of_script(thread)) and not _is_worker(thread):
                    self._isolation.retire = True
            self._known = left
        self._started.clear()


def _is_of_package(frame):
    """Whether the first code outside of the standard library, on the way up from the start of a thread, is an installed package."""
    while frame is not None:
        file = frame.f_code.co_filename
        if any(part in file for part in PACKAGES):
            return True
        if not file.startswith((LIBRARY, "<frozen ")):
            return False
        frame = frame.f_back
    return False


def _is_worker(thread):
    """Whether the thread belongs to a ThreadPoolExecutor: its work was waited for."""
    return thread in getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", {})


def _wait(thread):
    if _is_worker(thread):
        reference = (getattr(thread, "_args", None) or [lambda: None])[0]
        _wait_for_executor(reference(), thread)
    elif hasattr(thread, "executor_reference"):  # of a ProcessPoolExecutor
        executor = thread.executor_reference()
        if executor is not None:
            executor.shutdown()
        thread.join()
    else:
        thread.join()


def _wait_for_executor(executor, thread):
    """Waits for the work that was given to a ThreadPoolExecutor, which may go on if a module holds it."""
    if executor is None or executor._shutdown:
        thread.join()
        return
    workers = executor._max_workers
    barrier = threading.Barrier(workers)
    for future in [executor.submit(barrier.wait) for _ in range(workers)]:
        future.result()


def _is_of_script(thread):
    target = getattr(thread, "_target", None)
    module = getattr(target, "__module__", None) if target is not None else type(thread).__module__
    return module == "__main__" or type(thread).__module__ == "__main__"
