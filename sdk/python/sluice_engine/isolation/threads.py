"""Threads of a script: as at the end of CPython, those that are not daemons are waited for. Threads of imported modules stay."""

import sys
import threading


class Threads:
    def __init__(self, isolation):
        self._isolation = isolation
        self._active = threading._active
        self._known = set(threading.enumerate())

    def finish(self):
        """Waits for the threads of the script. If one goes on, the process will end after the reply, which ends the thread."""
        if len(self._active) == 1:
            return
        for thread in threading.enumerate():
            if thread not in self._known and not thread.daemon and thread is not threading.current_thread():
                _wait(thread)
        for thread in threading.enumerate():
            if thread not in self._known and _is_of_script(thread):
                self._isolation.retire = True
        self._known = set(threading.enumerate())


def _wait(thread):
    queues = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", {})
    if thread in queues:
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
