"""What must be as before after the soak test: processes, descriptors, memory, files; and the access log."""

import collections
import os
import re

from testing import wait_until

# Memory that an allocator keeps is no leak. In a shorter run it has not taken all that it keeps before the run begins.
MEMORY_TOLERANCE = 32 << 20
MEMORY_SECONDS_MIN = 60


class Balance:
    """The state of a server and its machine."""

    def __init__(self, server):
        self.memory = server.memory()
        self.descriptors = server.descriptors()
        self.shared = sorted(name for name in os.listdir("/dev/shm"))
        self.temporary = remove_temporary(server)


def remove_temporary(server):
    """Removes the temporary files, and returns the names of those that should not be there: PHP leaves some when it is killed."""
    names = os.listdir(server.temporary)
    for name in names:
        os.unlink(os.path.join(server.temporary, name))
    return [name for name in names if not name.startswith("php")]


def settle(server, descriptors=None):
    """Waits until the server is idle: no script process, and no more descriptors than before."""
    return wait_until(
        lambda: not server.processes() and (descriptors is None or len(server.descriptors()) <= descriptors), deadline=90
    )


def check(server, soak, before, seconds):
    """The differences from the state before a run of this length, as a list of sentences."""
    findings = []
    if not settle(server, len(before.descriptors)):
        extra = collections.Counter(server.descriptors()) - collections.Counter(before.descriptors)
        findings.append(f"left: script processes {server.processes()}, descriptors {dict(extra)}")
    after = Balance(server)
    print(f"memory: {before.memory >> 10} KiB before, {after.memory >> 10} KiB after; ", end="")
    print(f"descriptors: {len(before.descriptors)}, {len(after.descriptors)}")
    if seconds >= MEMORY_SECONDS_MIN and after.memory > before.memory + MEMORY_TOLERANCE:
        findings.append(f"memory: {(after.memory - before.memory) >> 10} KiB more than before")
    if set(after.shared) - set(before.shared):
        findings.append(f"/dev/shm: {set(after.shared) - set(before.shared)}")
    if after.temporary:
        findings.append(f"temporary files: {after.temporary[:5]}")
    return findings + logged(server, soak) + rates(soak) + soak.wrong[:20]


def logged(server, soak):
    """Every request whose head was sent is in the access log exactly once."""
    pattern = re.compile(rf"{soak.name}-[0-9]+-[0-9a-f]+")

    def count():
        found = collections.Counter()
        with open(server.path("access.log"), errors="replace") as log:
            for line in log:
                # A marker may be in the path and in the query: once per line.
                found.update(set(pattern.findall(line.split('"')[1])))
        return found

    # A thread of the server writes the log.
    wait_until(lambda: len(count()) >= len(soak.sent))
    lines = count()
    missing = [f"{marker} ({kind})" for marker, kind in soak.sent.items() if lines[marker] == 0]
    twice = [marker for marker, number in lines.items() if number > 1]
    print(f"logged: {len(lines)} of {len(soak.sent)} exchanges, {len(twice)} more than once")
    findings = [f"not logged: {len(missing)}, such as {', '.join(missing[:5])}"] if missing else []
    return findings + ([f"logged more than once: {', '.join(twice[:5])}"] if twice else [])


def rates(soak):
    """Each kind of request must have had right responses: one that always fails is no soak test."""
    findings = []
    for kind, outcome in sorted(soak.outcome.items()):
        asked = sum(number for what, number in outcome.items() if what != "right")
        is_cut = kind.endswith("death within") or kind.endswith("cgiplus exit")
        if asked >= 20 and not is_cut and outcome["right"] < asked / 2:
            findings.append(f"{kind}: only {outcome['right']} of {asked} responses are right: {dict(outcome)}")
    return findings
